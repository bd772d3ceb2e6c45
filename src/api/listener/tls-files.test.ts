import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createAuthority, issueCertificate } from '../../daemon/setup/certificates.ts'
import { readTlsFiles, TlsFilesUnusable } from './tls-files.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { TestContext } from 'node:test'
import type { CertificatePair } from '../../daemon/setup/certificates.ts'

const leaf = { commonName: 'host-1', alternativeNames: [], usages: ['server'] } as const

async function tlsFiles(t: TestContext, nowMs: number) {
  const directory = mkdtempSync(join(tmpdir(), 'tls-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const authority = await createAuthority('authority', nowMs)
  const pair = await issueCertificate(authority, leaf, nowMs)
  const files = {
    ca: join(directory, 'ca.crt'),
    certificate: join(directory, 'a.crt'),
    key: join(directory, 'a.key'),
  }
  writeFileSync(files.ca, authority.certificate)
  writeFileSync(files.certificate, pair.certificate)
  writeFileSync(files.key, pair.key)
  return { authority, files }
}

test('files that fit together are read, with the end of the certificate', async (t) => {
  const { files } = await tlsFiles(t, Date.UTC(2030, 0, 1))
  const { expiresAtMs } = readTlsFiles(files)
  assert.equal(expiresAtMs, Date.UTC(2030, 0, 1) + 824 * 86_400_000)
})

test('a key of another certificate, a file that is not an authority and a missing file are reported by name', async (t) => {
  const { authority, files } = await tlsFiles(t, Date.now())
  assert.throws(
    () => readTlsFiles({ ...files, key: '/nonexistent.key' }),
    /\/nonexistent\.key cannot be read/,
  )
  assert.throws(() => readTlsFiles({ ...files, ca: files.key }), TlsFilesUnusable)
  writeFileSync(files.key, (await issueCertificate(authority, leaf, Date.now())).key)
  assert.throws(() => readTlsFiles(files), /a\.key is not the key of \S+a\.crt$/)
})

test('a file with something else in it is reported by its own name', async (t) => {
  const { files } = await tlsFiles(t, Date.now())
  const { ca, certificate, key } = files
  const [trusted, certified, secret] = [ca, certificate, key].map((path) => readFileSync(path, 'utf8'))
  assert.ok(trusted !== undefined && certified !== undefined && secret !== undefined)
  const broken = certified.replace(/\n.*\n/, '\n')
  const locked = createPrivateKey(secret).export({
    format: 'pem',
    type: 'pkcs8',
    cipher: 'aes-256-cbc',
    passphrase: 'x',
  })
  const cases: readonly (readonly [path: string, content: string | Buffer, says: RegExp])[] = [
    [ca, '', /ca\.crt is not a certificate \(PEM\)/],
    [ca, trusted + broken, /ca\.crt is not a certificate \(PEM\)/],
    [certificate, secret, /a\.crt is not a certificate \(PEM\)/],
    [certificate, new X509Certificate(certified).raw, /a\.crt is not a certificate \(PEM\)/],
    [key, certified, /a\.key is not a private key \(PEM\) without a passphrase/],
    [key, locked, /a\.key is not a private key \(PEM\) without a passphrase/],
  ]
  for (const [path, content, says] of cases) {
    const before = readFileSync(path)
    writeFileSync(path, content)
    assert.throws(() => readTlsFiles(files), { name: 'TlsFilesUnusable', message: says })
    writeFileSync(path, before)
  }
  readTlsFiles(files)
})

test('a certificate that is not for a server is refused, and one for any use is not', async (t) => {
  const { authority, files } = await tlsFiles(t, Date.now())
  const write = ({ certificate, key }: CertificatePair): void => {
    writeFileSync(files.certificate, certificate)
    writeFileSync(files.key, key)
  }
  write(await issueCertificate(authority, { ...leaf, usages: ['client'] }, Date.now()))
  assert.throws(() => readTlsFiles(files), /a\.crt does not have the usage serverAuth: no client accepts it/)
  // It has no extended key usage.
  write(authority)
  readTlsFiles(files)
})

test('of several authorities the end of the first to end counts', async (t) => {
  const { files } = await tlsFiles(t, Date.now())
  const { certificate: earlier } = await createAuthority('earlier', Date.now() - 1000 * DAY_MS)
  const { certificate: later } = await createAuthority('later', Date.now())
  writeFileSync(files.ca, earlier)
  const { authorityExpiresAtMs: first } = readTlsFiles(files)
  for (const both of [earlier + later, later + earlier]) {
    writeFileSync(files.ca, both)
    assert.equal(readTlsFiles(files).authorityExpiresAtMs, first)
  }
})
