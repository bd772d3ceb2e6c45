import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAuthority } from '../daemon/setup/certificates.ts'
import { labelled } from '../../test/daemon/support/labelled.ts'
import {
  certificatesIn,
  parsedCertificatesIn,
  commonNameOf,
  lackingUsages,
  usagesOf,
} from './certificates.ts'
import { X509Certificate } from 'node:crypto'
import { oddCertificate } from '../../test/daemon/support/odd-certificate.ts'
import { makeOwnAuthority, P256 } from '../../test/own-authority.ts'

test('certificates are found under each label that TLS reads, and no other block is', async () => {
  const { certificate, key } = await createAuthority('authority', Date.now())
  const labels = ['CERTIFICATE', 'X509 CERTIFICATE', 'TRUSTED CERTIFICATE'] as const
  const blocks = labels.map((label) => labelled(certificate, label))
  const text = `a comment\n${key}${blocks.join('')}${certificate.replaceAll('CERTIFICATE', 'CERTIFICATE REQUEST')}`
  assert.deepEqual(
    certificatesIn(text),
    blocks.map((block) => block.trimEnd()),
  )
  assert.deepEqual(
    parsedCertificatesIn(Buffer.from(text)).map(({ subject }) => subject),
    labels.map(() => 'CN=authority'),
  )
})

test('a block whose two lines have different labels is not a certificate', async () => {
  const { certificate } = await createAuthority('authority', Date.now())
  assert.deepEqual(certificatesIn(certificate.replace('BEGIN CERT', 'BEGIN X509 CERT')), [])
})

test('a certificate that names no usage has every one, and one that names some has only those', (t) => {
  const made = (extensions: readonly string[]): X509Certificate =>
    new X509Certificate(makeOwnAuthority(t, P256, extensions).read().certificate)
  const free = made([])
  assert.deepEqual(usagesOf(free), ['server', 'client'])
  assert.deepEqual(lackingUsages(free, ['server', 'client']), [])
  const client = made(['extendedKeyUsage=clientAuth'])
  assert.deepEqual(usagesOf(client), ['client'])
  assert.deepEqual(lackingUsages(client, ['server', 'client']), ['serverAuth'])
})

test('a certificate with no common name, or with several, has none that identifies it', async (t) => {
  const authority = makeOwnAuthority(t, P256).read()
  const nameIn = async (names: readonly string[]): Promise<string | undefined> =>
    commonNameOf(new X509Certificate((await oddCertificate(authority, { names })).certificate))
  assert.equal(await nameIn(['one']), 'one')
  assert.equal(await nameIn([]), undefined)
  assert.equal(await nameIn(['one', 'two']), undefined)
})
