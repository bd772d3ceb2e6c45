import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createAuthority, issueCertificate } from '../../daemon/setup/certificates.ts'
import { limits } from '../../config/limits.ts'
import { until } from '../../../test/contract/until.ts'
import { recordingLog } from '../../../test/recording-log.ts'
import { readTlsFiles, watchTlsFiles } from '../listener/tls-files.ts'
import { CertificateEnds, noteInUse } from './certificate-ends.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { TlsWatch } from '../listener/tls-files.ts'
import type { TestContext } from 'node:test'

test('every certificate that ends soon is warned of once a day, until it is replaced', () => {
  const dayMs = 86_400_000
  const { log, lines } = recordingLog()
  let nowMs = Date.UTC(2030, 0, 1)
  const ends = new CertificateEnds(log, () => nowMs)
  const names = (['server', 'authority', 'node', 'node_authority'] as const).map((name, index) => {
    ends.set(name, nowMs + (31 + index) * dayMs)
    return name
  })
  const warned = (): unknown[] => {
    ends.check()
    return lines.splice(0).map(({ certificate, days_left }) => [certificate, days_left])
  }
  assert.deepEqual(warned(), [])
  nowMs += dayMs
  assert.deepEqual(warned(), [['server', 30]])
  assert.deepEqual(warned(), [])
  nowMs += dayMs
  assert.deepEqual(warned(), [
    ['server', 29],
    ['authority', 30],
  ])
  ends.set('server', nowMs + 29 * dayMs)
  assert.deepEqual(warned(), [], 'the same end is reported once')
  ends.set('server', nowMs + 800 * dayMs)
  ends.set('node', undefined)
  nowMs += 40 * dayMs
  assert.deepEqual(warned(), [
    ['authority', -10],
    ['node_authority', -8],
  ])
  assert.deepEqual(
    ends.list().map(({ name }) => name),
    names.filter((name) => name !== 'node').toSorted(),
  )
})

test('after a clock that was a year ahead, warnings are daily again, and a client is one of the last day for a day', () => {
  const { log, lines } = recordingLog()
  const trueMs = Date.UTC(2030, 0, 1)
  let nowMs = trueMs + 365 * DAY_MS
  const ends = new CertificateEnds(log, () => nowMs)
  const warned = (): number => {
    ends.check()
    return lines.splice(0).length
  }
  const notAfterMs = trueMs + 10 * DAY_MS
  ends.set('server', notAfterMs)
  ends.clients.note({ commonName: 'controller', role: 'controller', serial: 'old', notAfterMs })()
  assert.equal(warned(), 2)
  nowMs = trueMs
  assert.equal(warned(), 2)
  assert.equal(warned(), 0)
  nowMs += 2 * DAY_MS
  ends.clients.note({ commonName: 'controller', role: 'controller', serial: 'new', notAfterMs: nowMs })()
  assert.deepEqual(
    ends.list().filter(({ name }) => name === 'controller'),
    [{ name: 'controller', notAfterMs: nowMs }],
  )
  nowMs += 6 * DAY_MS
  assert.deepEqual(
    ends.clients.list().map(({ serial }) => serial),
    ['new'],
  )
})

async function filesOf(t: TestContext, madeAtMs: number) {
  const directory = mkdtempSync(join(tmpdir(), 'ends-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const at = (name: string): string => join(directory, name)
  const authority = await createAuthority('authority', madeAtMs)
  const leaf = { commonName: 'host-1', alternativeNames: [], usages: ['server'] } as const
  const server = await issueCertificate(authority, leaf, madeAtMs)
  const node = await issueCertificate(authority, leaf, madeAtMs + DAY_MS)
  const files = { ca: at('ca.crt'), certificate: at('server.crt'), key: at('server.key') }
  writeFileSync(files.ca, authority.certificate)
  writeFileSync(files.certificate, server.certificate)
  writeFileSync(files.key, server.key)
  writeFileSync(at('node.crt'), node.certificate)
  return { files, nodeFile: at('node.crt') }
}

/** The callback of a watch, for a listener without revocation lists. */
const lookOf = (...to: Parameters<typeof noteInUse>): NonNullable<TlsWatch['onLook']> => {
  const note = noteInUse(...to)
  return (inUse, refused) => note({ inUse, refused, revocations: () => undefined })
}

test('the watch begins with a warning about a certificate that ends soon', async (t) => {
  const { files, nodeFile } = await filesOf(t, Date.now() - 820 * DAY_MS)
  const { log, lines } = recordingLog()
  const onLook = lookOf(new CertificateEnds(log), { certificate: nodeFile })
  watchTlsFiles({ files, current: readTlsFiles(files), onChange: () => {}, onLook, log })()
  assert.match(JSON.stringify(lines), /"days_left":[45],.*ends soon/)
})

test('a watch warns when an end comes near while the daemon runs, also of the certificate for nodes', async (t) => {
  const { files, nodeFile } = await filesOf(t, Date.now() - 790 * DAY_MS)
  const { log, lines } = recordingLog()
  let nowMs = Date.now()
  const ends = new CertificateEnds(log, () => nowMs)
  const onLook = lookOf(ends, { certificate: nodeFile, authority: files.ca })
  t.after(
    watchTlsFiles({ files, current: readTlsFiles(files), onChange: () => {}, onLook, log, recheckMs: 5 }),
  )
  assert.deepEqual(
    ends.list().map(({ name }) => name),
    ['authority', 'node', 'node_authority', 'server'],
  )
  assert.deepEqual([...lines], [])
  nowMs += 10 * DAY_MS
  await until(
    () => lines.map(({ certificate }) => certificate),
    (warned) => warned.includes('server') && warned.includes('node'),
  )
})

test('certificates of clients are kept for a week after their last connection, a bounded number of them', () => {
  let nowMs = Date.UTC(2030, 0, 1)
  const ends = new CertificateEnds(recordingLog().log, () => nowMs)
  const note = (serial: string, role: 'controller' | 'reader' = 'reader'): void =>
    ends.clients.note({ commonName: role, role, serial, notAfterMs: nowMs + 400 * DAY_MS })()
  note('a', 'controller')
  nowMs += 1000
  note('b', 'controller')
  assert.deepEqual(
    ends.list().map(({ name, notAfterMs }) => [name, notAfterMs]),
    [['controller', nowMs - 1000 + 400 * DAY_MS]],
  )
  nowMs += 7 * DAY_MS
  assert.deepEqual(
    ends.clients.list().map(({ serial }) => serial),
    ['b'],
  )
  for (let index = 0; index < 200; index += 1) note(String(index))
  const serials = ends.clients.list().map(({ serial }) => serial)
  assert.equal(serials.length, limits.clientCertificatesMax)
  assert.ok(serials.includes('199') && !serials.includes('b'))
})

test('the certificate of a reader of metrics is shown and warned of', () => {
  const nowMs = Date.UTC(2030, 0, 1)
  const { log, lines } = recordingLog()
  const ends = new CertificateEnds(log, () => nowMs)
  const notAfterMs = nowMs + 3 * DAY_MS
  ends.clients.note({ commonName: 'prometheus', role: 'metrics', serial: 'a', notAfterMs })
  assert.deepEqual(ends.list(), [{ name: 'metrics', notAfterMs }])
  ends.check()
  assert.deepEqual(
    lines.map(({ certificate_name: name, days_left: left }) => [name, left]),
    [['prometheus', 3]],
  )
})

test('of the controllers the one that ends first is shown, until a day after its last connection', () => {
  let nowMs = Date.UTC(2030, 0, 1)
  const ends = new CertificateEnds(recordingLog().log, () => nowMs)
  const connect = (serial: string, notAfterMs: number): (() => void) =>
    ends.clients.note({ commonName: 'controller', role: 'controller', serial, notAfterMs })
  const shown = (): unknown => ends.list().map(({ name, notAfterMs }) => [name, notAfterMs])
  const soonMs = nowMs + 20 * DAY_MS
  const lateMs = nowMs + 400 * DAY_MS
  const old = [connect('old', soonMs), connect('old', soonMs)]
  nowMs += 3 * DAY_MS
  connect('new', lateMs)()
  assert.deepEqual(shown(), [['controller', soonMs]], 'its connections are open')
  for (const close of old) close()
  nowMs += DAY_MS
  connect('new', lateMs)()
  assert.deepEqual(shown(), [['controller', soonMs]])
  nowMs += 1
  assert.deepEqual(shown(), [['controller', lateMs]], 'it was probably replaced')
  nowMs += 2 * DAY_MS
  assert.deepEqual(shown(), [['controller', lateMs]], 'the last one')
  assert.deepEqual(
    ends.clients.list().map(({ serial }) => serial),
    ['old', 'new'],
  )
  nowMs += 5 * DAY_MS
  assert.deepEqual(shown(), [])
})

test('each listener has its revocation lists, and those that say when they end are in the metrics', () => {
  const ends = new CertificateEnds(recordingLog().log)
  assert.equal(ends.revocations('controller'), undefined)
  ends.watchLists('controller', () => ({ revoked: 2, nextUpdateMs: 5, lists: [] }))
  ends.watchLists('coordination', () => ({ revoked: 1, lists: [] }))
  assert.equal(ends.revocations('controller')?.revoked, 2)
  assert.deepEqual(ends.nextUpdates(), [{ listener: 'controller', nextUpdateMs: 5 }])
})

test('the log warns daily of each certificate of a client that ends soon, until it is seen no more', () => {
  const { log, lines } = recordingLog()
  let nowMs = Date.UTC(2030, 0, 1)
  const ends = new CertificateEnds(log, () => nowMs)
  const notAfterMs = nowMs + 10 * DAY_MS
  ends.clients.note({ commonName: 'metrics', role: 'reader', serial: 'ab', notAfterMs })()
  const warned = (): unknown[] => {
    ends.check()
    return lines
      .splice(0)
      .map(({ certificate_name, certificate_serial, days_left }) => [
        certificate_name,
        certificate_serial,
        days_left,
      ])
  }
  assert.deepEqual(warned(), [['metrics', 'ab', 10]])
  assert.deepEqual(warned(), [])
  nowMs += DAY_MS
  assert.deepEqual(warned(), [['metrics', 'ab', 9]])
  nowMs += 7 * DAY_MS
  assert.deepEqual(warned(), [])
})
