import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent } from 'node:https'
import { connect } from 'node:tls'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { bindControllerApi } from '../../src/api/controller/controller-api.ts'
import { clientsOf } from '../../src/api/controller/clients.ts'
import { clientWith } from './support/coordination-host.ts'
import { handshake } from './support/raw-websocket.ts'
import {
  assertProblem,
  COMMON_NAME,
  createBody,
  makePki,
  send,
  startControllerHost,
} from './support/controller-host.ts'
import type { TestContext } from 'node:test'
import type { BoundControllerApi } from '../../src/api/controller/controller-api.ts'
import type { Answer, ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** Binds a listener beside that of the host, and gives it no API yet. */
const bind = ({ files, directory, dependencies }: ControllerHost): Promise<BoundControllerApi> =>
  bindControllerApi({
    address: '127.0.0.1',
    port: 0,
    clients: clientsOf(COMMON_NAME, []),
    tlsFiles: files,
    nodeFiles: { certificate: join(directory, 'node.crt') },
    version: dependencies.version,
    log: dependencies.log,
  })

/** Returns a function that sends requests of the controller, all over one connection. */
function overOneConnection(t: TestContext, port: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  const client = clientWith(pki, pki.controller, { agent })
  return (method: string, path: string, body?: object): Promise<Answer> =>
    send(port, { method, path, client, ...(body === undefined ? {} : { body }) })
}

test('a listener without its API says that it is alive, refuses the rest, and serves the API on the same connection', async (t) => {
  const host = await startControllerHost(t, pki)
  const bound = await bind(host)
  const call = overOneConnection(t, bound.port)
  assert.deepEqual((await call('GET', '/healthz')).json, { status: 'alive', version: '1.2.3' })
  for (const path of ['/readyz', '/v1/vms', '/metrics', '/ui/'])
    assertProblem(await call('GET', path), 503, 'starting_up')
  const refused = await call('PUT', '/v1/vms/web-1', createBody())
  assert.match(assertProblem(refused, 503, 'starting_up').detail, /waiting for the store to open/)
  assert.equal(refused.headers['retry-after'], '1')
  const requestId = String(refused.headers['x-request-id'])
  assert.ok(host.logLines.some((line) => line.includes('request audited') && line.includes(requestId)))

  const { clients } = host.dependencies.certificates
  assert.deepEqual(clients.list(), [])
  const api = await bound.serve(host.dependencies)
  t.after(() => api.close(0))
  assert.deepEqual((await call('GET', '/readyz')).json, { status: 'ready' })
  assert.equal((await call('PUT', '/v1/vms/web-1', createBody())).status, 202)
  assert.deepEqual(
    clients.list().map(({ commonName }) => commonName),
    [COMMON_NAME],
  )
})

test('a browser that opens a page of a listener without its API, or a broken address, gets words and a way on', async (t) => {
  const host = await startControllerHost(t, pki)
  const bound = await bind(host)
  t.after(() => bound.close())
  const client = clientWith(pki, pki.controller, { agent: new Agent() })
  const headers = { accept: 'text/html,*/*;q=0.8' }
  for (const [port, path, status, words] of [
    [bound.port, '/ui/', 503, 'Waiting for the store to open.'],
    [host.port, '/ui/console/%zz', 400, 'The path is not validly percent-encoded.'],
  ] as const) {
    const page = await send(port, { method: 'GET', path, client, headers })
    assert.equal(page.status, status)
    assert.match(page.headers['content-type'] ?? '', /^text\/html/)
    assert.match(String(page.headers['content-security-policy']), /default-src 'none'/)
    assert.ok(page.text.includes(words), page.text)
  }
  const other = await send(bound.port, { method: 'GET', path: '/v1/vms', client, headers })
  assertProblem(other, 503, 'starting_up')
})

test('a listener without its API refuses a peer that may not use it, and upgrades no connection', async (t) => {
  const host = await startControllerHost(t, pki)
  const bound = await bind(host)
  t.after(() => bound.close())
  const stranger = clientWith(pki, await pki.issue({ commonName: 'stranger' }))
  assertProblem(await send(bound.port, { path: '/healthz', client: stranger }), 403, 'forbidden')
  const { certificate: cert, key } = pki.controller
  const socket = connect({ port: bound.port, host: '127.0.0.1', ca: pki.authority.certificate, cert, key })
  t.after(() => socket.destroy())
  socket.write(handshake())
  const [bytes] = (await once(socket, 'data')) as [Buffer]
  assert.match(bytes.toString(), /^HTTP\/1\.1 503 /)
})

test('a listener that is closed before it has an API ends its connections, and frees its port', async (t) => {
  const host = await startControllerHost(t, pki)
  const bound = await bind(host)
  const { certificate: cert, key } = pki.controller
  const socket = connect({ port: bound.port, host: '127.0.0.1', ca: pki.authority.certificate, cert, key })
  await once(socket, 'secureConnect')
  const ended = once(socket, 'close')
  bound.close()
  await ended
  const client = clientWith(pki, pki.controller)
  await assert.rejects(send(bound.port, { path: '/healthz', client }), /ECONNREFUSED/)
})
