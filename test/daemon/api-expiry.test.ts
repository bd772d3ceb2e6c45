import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { before, test } from 'node:test'
import { issueCertificate } from '../../src/daemon/setup/certificates.ts'
import { COMMON_NAME, makePki, startControllerHost } from './support/controller-host.ts'
import { createVm, startConsole, watch } from './support/console-viewer.ts'
import { startCoordinationHost } from './support/coordination-host.ts'
import { openConnection } from './support/open-connection.ts'
import { until } from '../contract/until.ts'
import { DAY_MS } from '../../src/lib/time-units.ts'
import type { TLSSocket } from 'node:tls'
import type { TestContext } from 'node:test'
import type { CertificatePair, LeafRequest } from '../../src/daemon/setup/certificates.ts'
import type { Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** Returns a certificate that ends within six days. */
const endingSoon = (leaf: Partial<LeafRequest>): Promise<CertificatePair> =>
  issueCertificate(
    pki.authority,
    { commonName: COMMON_NAME, alternativeNames: [], usages: ['client'], ...leaf },
    Date.now() - 820 * DAY_MS,
  )

/** Moves the time of day of this process ten days on. */
function passTenDays(t: TestContext): void {
  const now = Date.now.bind(Date)
  t.mock.method(Date, 'now', () => now() + 10 * DAY_MS)
}

const closed = (socket: TLSSocket): Promise<boolean> =>
  until(
    () => socket.destroyed,
    (isClosed) => isClosed,
  )

/** Checks that the log says once that connections ended, and of which certificate. */
function assertReported(logLines: readonly string[], { certificate }: CertificatePair, count: number): void {
  const lines = logLines.map((line) => JSON.parse(line)).filter(({ reason }) => reason !== undefined)
  const [{ reason, count: ended, certificate_serials: serials }, ...others] = lines
  assert.deepEqual(
    [reason, ended, serials, others],
    ['certificate_expired', count, [new X509Certificate(certificate).serialNumber], []],
  )
}

test('connections end with the certificate of their client: idle ones, streams and consoles', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  await startConsole(host)
  const pair = await endingSoon({})
  const viewer = await watch(t, host, { ...pki, controller: pair })
  const ended = once(viewer.socket, 'close')
  const connected = (of: CertificatePair) => openConnection(t, { pki, port: host.port, pair: of })
  const [idle, stream, kept] = [await connected(pair), await connected(pair), await connected(pki.controller)]
  stream.write('GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await once(stream, 'data')
  assert.deepEqual([idle.destroyed, stream.destroyed], [false, false])
  passTenDays(t)
  await Promise.all([closed(idle), closed(stream), ended])
  assert.equal(kept.destroyed, false)
  assertReported(host.logLines, pair, 3)
})

test('a node whose certificate has ended loses its connection to the port for other hosts', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const pair = await endingSoon({ commonName: 'host-2', usages: ['server', 'client'] })
  const idle = await openConnection(t, { pki, port: host.port, pair })
  passTenDays(t)
  await closed(idle)
  assertReported(host.logLines, pair, 1)
})
