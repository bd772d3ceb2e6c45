import assert from 'node:assert/strict'
import { once } from 'node:events'
import { before, test } from 'node:test'
import { WebSocket } from 'ws'
import { createControllerApp } from '../../src/api/controller/create-app.ts'
import { plainTransport } from '../../src/api/listener/transports.ts'
import { beginsUpgrade } from '../../src/api/controller/upgrade.ts'
import { until } from '../contract/until.ts'
import { assertProblem, createBody, makePki, startControllerHost } from './support/controller-host.ts'
import { createVm, refused, startConsole, watch, WEB } from './support/console-viewer.ts'
import { CONSOLE, handshake, rawConnection, rawViewer } from './support/raw-websocket.ts'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import type { ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

async function stage(t: TestContext): Promise<ControllerHost> {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  await startConsole(host)
  return host
}

const nobodyWatches = (host: ControllerHost): Promise<number> =>
  until(
    () => host.hub.viewers(WEB),
    (taken) => taken === 0,
  )

test('without a client certificate there is no console', async (t) => {
  const host = await stage(t)
  const { authority } = pki
  const options = { ca: authority.certificate, cert: undefined, key: undefined }
  await assert.rejects(
    refused(host, pki, { options }),
    /CERTIFICATE_REQUIRED|certificate required|ECONNRESET/,
  )
  await nobodyWatches(host)
})

test('a certificate with another name is refused before the upgrade', async (t) => {
  const host = await stage(t)
  const other = await pki.issue({ commonName: 'somebody-else' })
  const options = { cert: other.certificate, key: other.key }
  assertProblem(await refused(host, pki, { options }), 403, 'forbidden')
  // The daemon ends the connection: it no longer speaks HTTP.
  const connection = await rawConnection(t, host, { ...pki, controller: other })
  connection.socket.write(handshake())
  assert.equal(await connection.status(), 403)
  await connection.over()
})

test('a page of another origin is refused, a page of this listener and a client without one are not', async (t) => {
  const host = await stage(t)
  for (const origin of [
    'https://example.net',
    'null',
    `http://127.0.0.1:${host.port}`,
    'https://127.0.0.1',
  ]) {
    const problem = assertProblem(await refused(host, pki, { options: { origin } }), 403, 'forbidden')
    assert.match(problem.detail, /Origin header must be https:\/\/127\.0\.0\.1:\d+, or not be there/)
  }
  const hidden = await host.call({ path: CONSOLE, headers: { 'sec-fetch-site': 'cross-site' } })
  assertProblem(hidden, 403, 'forbidden')
  await watch(t, host, pki, { options: { origin: `https://127.0.0.1:${host.port}` } })
})

test('a request without an upgrade is asked to make one', async (t) => {
  const host = await stage(t)
  const answer = await host.call({ path: CONSOLE })
  assertProblem(answer, 426, 'upgrade_required')
  assert.equal(answer.headers.upgrade, 'websocket')
  assert.equal(answer.headers['sec-websocket-version'], '13')
  assert.equal((await host.call({ method: 'HEAD', path: CONSOLE })).status, 426)
})

test('an invalid handshake is answered with its fault, and holds no place', async (t) => {
  const host = await stage(t)
  const cases: readonly (readonly [sent: string, status: number, detail: RegExp])[] = [
    [handshake({ 'sec-websocket-key': undefined }), 426, /Sec-WebSocket-Key/],
    [handshake({ 'sec-websocket-key': 'short' }), 426, /Sec-WebSocket-Key/],
    [handshake({ 'sec-websocket-version': undefined }), 426, /Sec-WebSocket-Version: 13/],
    [handshake({ 'sec-websocket-version': '8' }), 426, /Sec-WebSocket-Version: 13/],
    ...['a, a', '', 'a,', ',a', 'a b', 'a/b', 'a, b\xa0'].map(
      (named) =>
        [handshake({ 'sec-websocket-protocol': named }), 426, /Sec-WebSocket-Protocol.*distinct/] as const,
    ),
    [handshake({ upgrade: 'h2c' }), 426, /Upgrade: websocket/],
    [handshake({ connection: 'close' }), 426, /Connection: Upgrade/],
    [handshake({ 'content-length': '5' }) + 'hello', 426, /no body/],
    [handshake({}, `GET ${CONSOLE} HTTP/1.0`), 426, /HTTP\/1\.1/],
    [handshake({}, `GET /v1/vms/web%2D1/console HTTP/1.1`), 426, /WebSocket client/],
    [handshake({}, `GET /v1/vms/web%zz/console HTTP/1.1`), 400, /percent-encoded/],
    [handshake({}, `POST ${CONSOLE} HTTP/1.1`), 405, /GET/],
    [handshake({ host: undefined }), 400, /one Host/],
    [handshake({ host: 'one.example\r\nhost: two.example' }), 400, /one Host/],
    [handshake({}, 'GET /v1/vms/web-1/consoles HTTP/1.1'), 404, /no such route/],
  ]
  for (const [sent, status, detail] of cases) {
    const connection = await rawConnection(t, host, pki)
    connection.socket.write(sent, 'latin1')
    assert.equal(await connection.status(), status, sent)
    assert.match(connection.text, detail, sent)
    connection.socket.end()
    await connection.over()
  }
  assert.equal(host.hub.viewers(WEB), 0)
})

test('a handshake may name subprotocols, each once', async (t) => {
  const host = await stage(t)
  for (const named of ['a', 'a, b', "a\t,b ,  A!#$%&'*+-.^_`|~9"]) {
    const connection = await rawConnection(t, host, pki)
    connection.socket.write(handshake({ 'sec-websocket-protocol': named }))
    assert.equal(await connection.status(), 101, named)
  }
})

test('a request elsewhere that offers an upgrade is answered like one that does not', async (t) => {
  const host = await stage(t)
  const connection = await rawConnection(t, host, pki)
  connection.socket.write(handshake({}, 'GET /healthz HTTP/1.1'))
  assert.equal(await connection.status(), 200)
  // The connection continues with HTTP, and may still become a console.
  connection.socket.write(handshake())
  await until(
    () => connection.text,
    (heard) => heard.includes('HTTP/1.1 101') && heard.includes('"attached"'),
  )
})

test('frames that come in the same packet as the handshake are not lost', async (t) => {
  const host = await stage(t)
  const connection = await rawConnection(t, host, pki)
  const frame = Buffer.from([0x82, 0x82, 0, 0, 0, 0, 0x68, 0x69])
  connection.socket.write(Buffer.concat([Buffer.from(handshake()), frame]))
  await until(
    () => host.host.consoles.session(WEB)?.terminal.typed,
    (typed) => typed === 'hi',
  )
})

test('a console that opens says under which request id the log has it', async (t) => {
  const host = await stage(t)
  for (const given of [undefined, 'mine-7', 'not well formed']) {
    const connection = await rawConnection(t, host, pki)
    connection.socket.write(handshake({ 'x-request-id': given }))
    const [, id = ''] = (await until(
      () => /^HTTP\/1.1 101 [^]*\r\nX-Request-Id: (\S+)\r\n/.exec(connection.text),
      (found) => found !== null,
    )) as RegExpExecArray
    assert.match(id, given === 'mine-7' ? /^mine-7$/ : /^req-/)
    await until(
      () => host.logLines.some((line) => line.includes(`"request_id":"${id}"`)),
      (isLogged) => isLogged,
    )
  }
})

test('a refused upgrade is answered as a problem, and the connection ends', async (t) => {
  const host = await stage(t)
  await createVm2(host)
  const connection = await rawConnection(t, host, pki)
  connection.socket.write(handshake({}, 'GET /v1/vms/web-2/console HTTP/1.1'))
  assert.equal(await connection.status(), 409)
  await connection.over()
  assert.match(connection.text, /connection: close/i)
  assert.match(connection.text, /"code":"vm_not_running"/)
  assertProblem(await refused(host, pki, { id: 'web-3' }), 404, 'not_found')
  assertProblem(await refused(host, pki, { id: 'WEB' }), 400, 'invalid_request')
  host.storeIsOpen = false
  assertProblem(await refused(host, pki), 503, 'starting_up')
})

async function createVm2(host: ControllerHost): Promise<void> {
  const network = { ipv4_address: '192.0.2.11', ipv6_address: '2001:db8::11' }
  await host.call({ method: 'PUT', path: '/v1/vms/web-2', body: createBody({ network }) })
}

test('a query is checked before the upgrade', async (t) => {
  const host = await stage(t)
  const cases: readonly (readonly [query: string, detail: RegExp])[] = [
    ['?folow=true', /\/folow is not known here; did you mean follow\?/],
    ['?mode=vnc', /\/mode must be one of tty, ssh/],
    ['?since=-1', /\/since/],
    ['?since=1e3', /\/since must be a whole number/],
    ['?since=5&session=xyz', /\/session must be the session of an earlier attached message/],
    ['?session=0123456789abcdef', /\/session goes with since/],
    ['?cols=0&rows=1', /\/cols must be between 1 and 1000/],
    ['?cols=80', /\/cols is half a window/],
    ['?user=root', /\/user does not go with mode=tty/],
    [`?accept_host_key=SHA256:${'x'.repeat(43)}`, /\/accept_host_key does not go with mode=tty/],
    ['?mode=ssh&follow=true', /\/follow does not go with mode=ssh/],
    ['?mode=ssh&since=3', /\/since does not go with mode=ssh/],
    ['?mode=ssh&user=Root;', /\/user must be/],
  ]
  for (const [query, detail] of cases) {
    const problem = assertProblem(await refused(host, pki, { query }), 400, 'invalid_request')
    assert.match(problem.detail, detail, query)
  }
  const far = await watch(t, host, pki, { query: '?since=123456789012345' })
  assert.equal(far.texts[0].attached.cursor, 0)
})

test('a viewer that is gone before the upgrade comes leaves its place', async (t) => {
  const host = await stage(t)
  for (let round = 0; round < 20; round += 1) {
    const connection = await rawConnection(t, host, pki)
    connection.socket.write(handshake(), () => connection.socket.destroy())
    await connection.over()
  }
  await nobodyWatches(host)
})

test('consoles are connections like all others, and count as such', async (t) => {
  const host = await stage(t)
  const { dependencies } = host
  const app = await createControllerApp(dependencies, plainTransport(beginsUpgrade))
  t.after(() => app.close())
  app.server.maxConnections = 1
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const url = `ws://127.0.0.1:${port}${CONSOLE}`
  const first = new WebSocket(url)
  await once(first, 'open')
  const second = new WebSocket(url)
  const [error] = await once(second, 'error')
  assert.match(String(error), /hang up|ECONNRESET/)
  first.terminate()
  await nobodyWatches(host)
})

test('the log has one line for each viewer that connects and one for each that leaves, without its query', async (t) => {
  const host = await stage(t)
  const viewer = await watch(t, host, pki, { query: '?follow=true' })
  viewer.socket.close()
  await viewer.ended()
  const lines = await until(
    () => host.logLines.filter((line) => line.includes('console viewer')).map((line) => JSON.parse(line)),
    ({ length }) => length === 2,
  )
  assert.deepEqual(
    lines.map(({ message, vm_id, mode }) => ({ message, vm_id, mode })),
    [
      { message: 'console viewer connected', vm_id: WEB, mode: 'tty' },
      { message: 'console viewer disconnected', vm_id: WEB, mode: 'tty' },
    ],
  )
  assert.equal(lines[0].request_id, lines[1].request_id)
  assert.equal(lines[1].status, 1005)
  const raw = await rawViewer(t, host, pki)
  raw.socket.destroy()
  await nobodyWatches(host)
})
