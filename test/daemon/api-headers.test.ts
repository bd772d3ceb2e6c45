/** Requests that Node would answer by itself, without a request id, a problem, or a look at who sends them. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { bindControllerApi } from '../../src/api/controller/controller-api.ts'
import { clientsOf } from '../../src/api/controller/clients.ts'
import { clientWith, startCoordinationHost } from './support/coordination-host.ts'
import { startMetricsHost } from './support/metrics-host.ts'
import { handshake, rawConnection } from './support/raw-websocket.ts'
import { assertProblem, COMMON_NAME, makePki, send, startControllerHost } from './support/controller-host.ts'
import { createVm, startConsole, WEB } from './support/console-viewer.ts'
import type { RequestOptions } from 'node:https'
import type { TestContext } from 'node:test'
import type { Answer, Call, Json, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/**
 * A request that Node would answer by itself, or of which it would leave a header out. With two hosts its client finds
 * no server name.
 */
type Odd = readonly [
  headers: Record<string, string | readonly string[]>,
  client: RequestOptions,
  detail: RegExp,
]

const odd: readonly Odd[] = [
  [{ expect: 'foo' }, {}, /Expect header has 100-continue alone/],
  [{ expect: '100-continue, foo' }, {}, /Expect header has 100-continue alone/],
  [{}, { setHost: false }, /one Host header/],
  [{ host: ['one.example', 'two.example'] }, { servername: '' }, /one Host header/],
]

const withId = (headers: Odd[0]): Odd[0] => ({
  ...headers,
  'x-request-id': 'mine-7',
})

/** Asks every listener, and one that has no API yet, for its health with a certificate of this name. */
async function everyListener(t: TestContext, commonNames: readonly [string, string, string]) {
  const [controller, coordination, metrics] = await Promise.all(
    commonNames.map((commonName) => pki.issue({ commonName, usages: ['server', 'client'] })),
  )
  assert.ok(controller !== undefined && coordination !== undefined && metrics !== undefined)
  const host = await startControllerHost(t, pki)
  const other = await startCoordinationHost(t, pki)
  const reader = await startMetricsHost(t, pki, ['monitor'])
  const bound = await bindControllerApi({
    address: '127.0.0.1',
    port: 0,
    clients: clientsOf(COMMON_NAME, []),
    tlsFiles: host.files,
    nodeFiles: { certificate: `${host.directory}/node.crt` },
    version: '1.2.3',
    log: host.dependencies.log,
  })
  t.after(() => bound.close())
  const at = [
    { port: host.port, pair: controller, api: 'controller' },
    { port: other.port, pair: coordination, api: 'coordination' },
    { port: reader.port, pair: metrics, api: 'metrics' },
    { port: bound.port, pair: controller, api: 'controller' },
  ] as const
  const ask = (call: Partial<Call>, client: RequestOptions): Promise<readonly Answer[]> =>
    Promise.all(
      at.map(({ port, pair, api }) =>
        send(port, { path: '/healthz', api, client: clientWith(pki, pair, client), ...call }),
      ),
    )
  return { host, ask }
}

test('every listener refuses a request without Host, with two, or with another expectation, as a problem', async (t) => {
  const { ask } = await everyListener(t, [COMMON_NAME, 'host-2', 'monitor'])
  for (const [headers, client, detail] of odd)
    for (const answer of await ask({ headers: withId(headers) }, client)) {
      assert.match(assertProblem(answer, 400, 'invalid_request').detail, detail)
      assert.equal(answer.headers['x-request-id'], 'mine-7')
    }
  for (const { status } of await ask({ headers: { expect: '100-Continue' } }, {})) assert.equal(status, 200)
})

test('a peer that a listener does not admit gets no other answer by a malformed header', async (t) => {
  const { ask } = await everyListener(t, ['stranger', COMMON_NAME, 'stranger'])
  for (const [headers, client] of odd)
    for (const answer of await ask({ headers }, client)) assertProblem(answer, 403, 'forbidden')
})

test('such a request is in the access log and in the audit trail, and changes nothing', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  host.logLines.length = 0
  const path = `/v1/vms/${WEB}/power`
  for (const [headers, client] of odd) {
    const call: Call = { method: 'PUT', path, headers: withId(headers), body: { state: 'stopped' } }
    await send(host.port, { ...call, client: clientWith(pki, pki.controller, client) })
  }
  const lines = host.logLines.map((line): Json => JSON.parse(line))
  for (const message of ['request', 'request audited'])
    assert.deepEqual(
      lines
        .filter((line) => line.message === message)
        .map(({ request_id, status, code }) => [request_id, status, code]),
      odd.map(() => ['mine-7', 400, 'invalid_request']),
      message,
    )
  assert.equal(host.store.vms.get(WEB)?.desired.power, 'running')
})

test('a connection goes on after such a request, and its body is not taken for the next one', async (t) => {
  const host = await startControllerHost(t, pki)
  const connection = await rawConnection(t, host, pki)
  const first = `PUT /v1/vms/${WEB} HTTP/1.1\r\nHost: x\r\nExpect: foo\r\nContent-Length: 2\r\n\r\n{}`
  connection.socket.write(`${first}GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  await connection.over()
  const statuses = [...connection.text.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => status)
  assert.deepEqual(statuses, ['400', '200'])
})

test('a handshake of a console with another expectation is refused as well', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  await startConsole(host)
  const connection = await rawConnection(t, host, pki)
  connection.socket.write(handshake({ expect: 'foo' }))
  assert.equal(await connection.status(), 400)
  await connection.over()
  assert.equal(host.hub.viewers(WEB), 0)
})
