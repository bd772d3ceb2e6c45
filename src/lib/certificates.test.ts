import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAuthority } from '../daemon/setup/certificates.ts'
import { labelled } from '../../test/daemon/support/labelled.ts'
import { certificatesIn, parsedCertificatesIn } from './certificates.ts'

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
