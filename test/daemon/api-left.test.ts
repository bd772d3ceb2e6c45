import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:https'
import { before, mock, test } from 'node:test'
import { createVm, dial, WEB } from './support/console-viewer.ts'
import { makePki, startControllerHost } from './support/controller-host.ts'
import { eventually } from './support/eventually.ts'
import type { Json, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

test('a request whose client left is in the access log and in the metrics, and a stream in the log alone', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const { certificate: cert, key } = pki.controller
  const options = {
    port: host.port,
    host: '127.0.0.1',
    ca: pki.authority.certificate,
    cert,
    key,
    agent: false,
  }
  const path = `/v1/vms?changed_after=${host.store.events.newest}`
  const waiting = request({ ...options, path, headers: { prefer: 'wait=60' } })
  waiting.on('error', () => {}).end()
  await eventually(() => host.dependencies.listWaits.size === 1)
  const stream = request({ ...options, path: '/v1/events' }).end()
  await once(stream, 'response')
  for (const one of [stream, waiting]) one.on('error', () => {}).destroy()
  const left = (): Json[] =>
    host.logLines.map((line): Json => JSON.parse(line)).filter(({ status, cut }) => status === 499 || cut)
  await eventually(() => left().length === 2)
  const seen = new Map(left().map(({ level, route, status, cut }) => [route, [level, status, cut]]))
  assert.deepEqual(seen.get('/v1/events'), ['debug', 200, true])
  assert.deepEqual(seen.get('/v1/vms'), ['debug', 499, undefined])
  const { text } = await host.call({ path: '/metrics' })
  const counts = text
    .split('\n')
    .filter((line) => line.startsWith('vmhostd_api_request_duration_seconds_count'))
  assert.deepEqual(
    counts.filter((line) => line.includes('"/v1/events"')),
    [],
  )
  assert.match(counts.join('\n'), /route="\/v1\/vms",status="4xx"\} 1/)
})

test('a console whose client left before its upgrade is in the audit trail and in the access log', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  host.store.vms.recordProgress(WEB, { observed: { state: 'running', sinceMs: 1000 }, nowMs: 2000 })
  host.guests.guest('192.0.2.10')
  host.guests.holdNext()
  const logins = mock.method(host.guests, 'open')
  const viewer = dial(host, pki, { query: '?mode=ssh' }).on('error', () => {})
  await eventually(() => logins.mock.callCount() === 1)
  viewer.terminate()
  const about = (): Json[] =>
    host.logLines
      .map((line): Json => JSON.parse(line))
      .filter(({ action, route }) => action === 'openConsole' || route?.endsWith('/console'))
  await eventually(() => about().length === 2)
  const [first, second] = about()
  assert.deepEqual([first.level, first.status], ['debug', 499])
  assert.ok(first.duration_ms > 0)
  assert.deepEqual([second.level, second.outcome], ['audit', 'unanswered'])
})
