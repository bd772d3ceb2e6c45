import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { makeOwnAuthority, P256 } from '../../../test/own-authority.ts'
import { issueCertificate } from './certificates.ts'
import { signingPair, whyNotSigned } from './signing-pair.ts'
import type { PairPaths } from './pair-files.ts'

const curve = (name: string): readonly string[] => [
  '-algorithm',
  'EC',
  '-pkeyopt',
  `ec_paramgen_curve:${name}`,
]
const RSA = ['-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048']

async function assertSigns(paths: PairPaths, what: string): Promise<void> {
  const signer = signingPair(paths)
  assert.ok(signer, what)
  const request = { commonName: 'host-1', alternativeNames: ['host-1'], usages: ['server'] } as const
  const issued = new X509Certificate((await issueCertificate(signer, request, Date.now())).certificate)
  const authority = new X509Certificate(readFileSync(paths.certificate))
  assert.ok(issued.checkIssued(authority) && issued.verify(authority.publicKey), what)
}

test("an operator's authority signs with any common kind of key", async (t) => {
  const kinds = [P256, curve('P-384'), curve('P-521'), RSA, ['-algorithm', 'ED25519']]
  for (const kind of kinds) await assertSigns(makeOwnAuthority(t, kind).paths, kind.join(' '))
})

test('a key signs in the form that openssl gave it formerly too', async (t) => {
  for (const kind of [P256, RSA]) {
    const { paths, openssl } = makeOwnAuthority(t, kind)
    writeFileSync(paths.key, openssl('pkey', '-in', paths.key, '-traditional'))
    assert.match(readFileSync(paths.key, 'utf8'), /^-----BEGIN (EC|RSA) PRIVATE KEY/)
    await assertSigns(paths, kind.join(' '))
    const parameters = openssl('ecparam', '-name', 'prime256v1')
    if (kind === P256) writeFileSync(paths.key, Buffer.concat([parameters, readFileSync(paths.key)]))
    await assertSigns(paths, `${kind.join(' ')}, behind its parameters`)
  }
})

test('a key of a kind that does not sign here is named with its file, and the authority is to sign', (t) => {
  for (const [kind, name] of [
    [curve('secp256k1'), 'secp256k1'],
    [['-algorithm', 'ED448'], 'ed448'],
    [['-algorithm', 'RSA-PSS', '-pkeyopt', 'rsa_keygen_bits:2048'], 'rsa-pss'],
  ] as const) {
    const { paths } = makeOwnAuthority(t, kind)
    assert.equal(signingPair(paths), undefined)
    assert.equal(
      whyNotSigned(paths),
      `its authority cannot sign here, because ${paths.key} is of the kind ${name}, and only keys of RSA, P-256, P-384, P-521 and Ed25519 sign here: have that authority sign`,
    )
  }
})

test('a key that cannot be read is named, also if it has a passphrase', (t) => {
  const { paths, openssl } = makeOwnAuthority(t, P256)
  writeFileSync(paths.key, openssl('pkey', '-in', paths.key, '-aes256', '-passout', 'pass:secret'))
  const check = (): void => {
    assert.equal(signingPair(paths), undefined)
    assert.match(
      whyNotSigned(paths),
      /own\.key is not a private key \(PEM\) without a passphrase: put that key there, or have that authority sign$/,
    )
  }
  check()
  writeFileSync(paths.key, 'no key')
  check()
})
