import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { makeOwnAuthority, P256 } from '../../../test/own-authority.ts'
import { limits } from '../../config/limits.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import { createAuthority, issueCertificate, namesLackingIn, reissueCertificate } from './certificates.ts'
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

test('an IPv6 address that ends as IPv4 is in a certificate as it is', async () => {
  const authority = await createAuthority('authority', Date.now())
  const names = [
    '64:ff9b::192.0.2.33',
    '::ffff:192.0.2.1',
    '2001:db8:0:0:0:1:192.0.2.2',
    '::',
    '2001:DB8::1',
    '192.0.2.3',
  ]
  const request = { commonName: 'host-1', alternativeNames: names, usages: ['server'] } as const
  const issued = new X509Certificate((await issueCertificate(authority, request, Date.now())).certificate)
  assert.deepEqual(namesLackingIn(issued, names), [])
  assert.equal(
    issued.subjectAltName,
    'IP Address:64:FF9B:0:0:0:0:C000:221, IP Address:0:0:0:0:0:FFFF:C000:201, IP Address:2001:DB8:0:0:0:1:C000:202, IP Address:0:0:0:0:0:0:0:0, IP Address:2001:DB8:0:0:0:0:0:1, IP Address:192.0.2.3',
  )
  const added = { nowMs: Date.now(), addedNames: ['64:ff9b::192.0.2.34'] }
  const again = new X509Certificate((await reissueCertificate(authority, issued, added)).certificate)
  assert.deepEqual(namesLackingIn(again, [...names, ...added.addedNames]), [])
})

test('a clock that was up to a day ahead makes certificates that are valid once it is right', async () => {
  const aheadMs = Date.UTC(2030, 0, 2)
  const authority = await createAuthority('authority', aheadMs)
  const issued = await issueCertificate(authority, SERVER, aheadMs)
  for (const [{ certificate }, days] of [
    [authority, limits.authorityValidityDays],
    [issued, limits.certificateValidityDays],
  ] as const) {
    const { validFromDate, validToDate } = new X509Certificate(certificate)
    assert.equal(validFromDate.getTime(), Date.UTC(2030, 0, 1))
    assert.equal(validToDate.getTime(), Date.UTC(2030, 0, 1) + days * DAY_MS)
  }
})
