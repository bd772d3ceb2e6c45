import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { issueCertificate, reissueCertificate } from './certificates.ts'
import type { TestContext } from 'node:test'
import type { CertificatePair } from './certificates.ts'

const P256 = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256']
const SIGNS = 'keyUsage=critical,keyCertSign,cRLSign'
const SERVER = { commonName: 'host-1', alternativeNames: ['host-1'], usages: ['server'] } as const

/** Makes an authority as an operator does, with openssl. */
function authorityOf(t: TestContext, key: readonly string[], ...extensions: string[]): CertificatePair {
  const directory = mkdtempSync(join(tmpdir(), 'authority-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const files = { certificate: join(directory, 'own.crt'), key: join(directory, 'own.key') }
  const subject = ['-x509', ...key, '-noenc', '-days', '3650', '-subj', '/O=Example/CN=own']
  const added = extensions.flatMap((extension) => ['-addext', extension])
  const out = ['-keyout', files.key, '-out', files.certificate]
  execFileSync('openssl', ['req', ...subject, ...added, ...out], { stdio: 'pipe' })
  return { certificate: readFileSync(files.certificate, 'utf8'), key: readFileSync(files.key, 'utf8') }
}

const isOf = (certificate: X509Certificate, authority: CertificatePair): boolean => {
  const issuer = new X509Certificate(authority.certificate)
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
}

test('a certificate names the key of its authority as the authority does, whatever identifier that has', async (t) => {
  const other = 'subjectKeyIdentifier=00112233445566778899aabbccddeeff00112233'
  for (const identifier of ['subjectKeyIdentifier=hash', other, 'subjectKeyIdentifier=none']) {
    const authority = authorityOf(t, P256, SIGNS, identifier, 'authorityKeyIdentifier=none')
    const issued = new X509Certificate((await issueCertificate(authority, SERVER, Date.now())).certificate)
    assert.ok(isOf(issued, authority), identifier)
    const again = await reissueCertificate(authority, issued, { nowMs: Date.now() })
    assert.ok(isOf(new X509Certificate(again.certificate), authority), identifier)
  }
})

test('no certificate comes of an authority that must not sign any', async (t) => {
  const authority = authorityOf(t, P256, 'keyUsage=critical,digitalSignature')
  await assert.rejects(
    issueCertificate(authority, SERVER, Date.now()),
    /^SetupError: the authority O=Example, CN=own cannot sign a certificate for CN=host-1 that others accept/,
  )
})
