import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { createAuthority, issueCertificate } from '../../daemon/setup/certificates.ts'
import { createLog } from '../../log/logger.ts'
import { until } from '../../../test/contract/until.ts'
import { recordingLog } from '../../../test/recording-log.ts'
import { CertificateEnds } from './certificate-ends.ts'
import { readTlsFiles, TlsFilesUnusable, watchTlsFiles } from './tls-files.ts'
import type { TestContext } from 'node:test'

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
  assert.equal(expiresAtMs, Date.UTC(2030, 0, 1) + 825 * 86_400_000)
})

test('a key of another certificate, a file that is not an authority and a missing file are reported by name', async (t) => {
  const { authority, files } = await tlsFiles(t, Date.now())
  assert.throws(
    () => readTlsFiles({ ...files, key: '/nonexistent.key' }),
    /\/nonexistent\.key cannot be read/,
  )
  assert.throws(() => readTlsFiles({ ...files, ca: files.key }), TlsFilesUnusable)
  writeFileSync(files.key, (await issueCertificate(authority, leaf, Date.now())).key)
  assert.throws(() => readTlsFiles(files), TlsFilesUnusable)
})

test('the watch begins with a warning about a certificate that ends soon', async (t) => {
  const { files } = await tlsFiles(t, Date.now() - 820 * 86_400_000)
  const lines: string[] = []
  const log = createLog({ level: 'info', write: (line) => lines.push(line) })
  const ends = new CertificateEnds(log)
  watchTlsFiles({ files, current: readTlsFiles(files), onChange: () => {}, log, ends })()
  assert.match(lines.join(''), /"days_left":[45],.*ends soon/)
})

test('every certificate that ends soon is warned of once a day, until it is replaced', () => {
  const dayMs = 86_400_000
  const { log, lines } = recordingLog()
  let nowMs = Date.UTC(2030, 0, 1)
  const ends = new CertificateEnds(log, () => nowMs)
  const names = (['server', 'authority', 'node', 'controller'] as const).map((name, index) => {
    ends.set(name, nowMs + (22 + index) * dayMs)
    return name
  })
  const warned = (): unknown[] => {
    ends.check()
    return lines.splice(0).map(({ certificate, days_left }) => [certificate, days_left])
  }
  assert.deepEqual(warned(), [])
  nowMs += dayMs
  assert.deepEqual(warned(), [['server', 21]])
  assert.deepEqual(warned(), [])
  nowMs += dayMs
  assert.deepEqual(warned(), [
    ['server', 20],
    ['authority', 21],
  ])
  ends.set('server', nowMs + 20 * dayMs)
  assert.deepEqual(warned(), [], 'the same end is reported once')
  ends.set('server', nowMs + 800 * dayMs)
  ends.set('node', undefined)
  nowMs += 30 * dayMs
  assert.deepEqual(warned(), [
    ['authority', -9],
    ['controller', -7],
  ])
  assert.deepEqual(
    ends.list().map(({ name }) => name),
    names.filter((name) => name !== 'node').toSorted(),
  )
})

const DAY_MS = 86_400_000

test('a watch warns when an end comes near while the daemon runs, also of the certificate for nodes', async (t) => {
  const madeAtMs = Date.now() - 800 * DAY_MS
  const { authority, files } = await tlsFiles(t, madeAtMs)
  const node = await issueCertificate(authority, leaf, madeAtMs + DAY_MS)
  writeFileSync(join(dirname(files.certificate), 'node.crt'), node.certificate)
  const { log, lines } = recordingLog()
  let nowMs = Date.now()
  const ends = new CertificateEnds(log, () => nowMs)
  const watch = { files, current: readTlsFiles(files), onChange: () => {}, log, ends, recheckMs: 5 }
  t.after(watchTlsFiles(watch))
  assert.deepEqual(
    ends.list().map(({ name }) => name),
    ['authority', 'node', 'server'],
  )
  assert.deepEqual([...lines], [])
  nowMs += 10 * DAY_MS
  await until(
    () => lines.map(({ certificate }) => certificate),
    (warned) => warned.includes('server') && warned.includes('node'),
    5000,
  )
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
