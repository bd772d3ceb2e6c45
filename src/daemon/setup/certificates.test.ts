import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { makeOwnAuthority, P256 } from '../../../test/own-authority.ts'
import { issueCertificate, reissueCertificate } from './certificates.ts'
import type { CertificatePair } from './certificates.ts'

const SIGNS = 'keyUsage=critical,keyCertSign,cRLSign'
const SERVER = { commonName: 'host-1', alternativeNames: ['host-1'], usages: ['server'] } as const

const isOf = (certificate: X509Certificate, authority: CertificatePair): boolean => {
  const issuer = new X509Certificate(authority.certificate)
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
}

test('a certificate names the key of its authority as the authority does, whatever identifier that has', async (t) => {
  const other = 'subjectKeyIdentifier=00112233445566778899aabbccddeeff00112233'
  for (const identifier of ['subjectKeyIdentifier=hash', other, 'subjectKeyIdentifier=none']) {
    const extensions = [SIGNS, identifier, 'authorityKeyIdentifier=none']
    const authority = makeOwnAuthority(t, P256, extensions).read()
    const issued = new X509Certificate((await issueCertificate(authority, SERVER, Date.now())).certificate)
    assert.ok(isOf(issued, authority), identifier)
    const again = await reissueCertificate(authority, issued, { nowMs: Date.now() })
    assert.ok(isOf(new X509Certificate(again.certificate), authority), identifier)
  }
})

test('no certificate comes of an authority that must not sign any', async (t) => {
  const authority = makeOwnAuthority(t, P256, ['keyUsage=critical,digitalSignature']).read()
  await assert.rejects(
    issueCertificate(authority, SERVER, Date.now()),
    /^SetupError: the authority O=Example, CN=own cannot sign a certificate for CN=host-1 that others accept/,
  )
})
