import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent } from 'node:https'
import { connect } from 'node:net'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { clientWith } from './support/coordination-host.ts'
import { makePki, send, startControllerHost } from './support/controller-host.ts'
import { until } from '../contract/until.ts'
import { eventually } from './support/eventually.ts'
import type { RequestOptions } from 'node:https'
import type { Socket } from 'node:net'
import type { TestContext } from 'node:test'
import type { Answer, ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** Sends a request with the controller's certificate from an address of this machine. */
function asController(host: ControllerHost, localAddress: string): Promise<Answer> {
  return send(host.port, { path: '/healthz', client: clientWith(pki, pki.controller, { localAddress }) })
}

/** Opens silent connections; the kernel accepts each before the next is made. */
async function silent(
  t: TestContext,
  host: ControllerHost,
  count: number,
  localAddress = '127.0.0.1',
): Promise<Socket[]> {
  const sockets: Socket[] = []
  t.after(() => sockets.forEach((socket) => socket.destroy()))
  for (let n = 0; n < count; n += 1) {
    const socket = connect({ port: host.port, host: '127.0.0.1', localAddress })
    socket.on('error', () => {})
    sockets.push(socket)
    await once(socket, 'connect')
  }
  return sockets
}

const isClosed = (socket: Socket): boolean => socket.destroyed || socket.readableEnded

test('a peer with too many silent connections gets no further one, and another peer is let in', async (t) => {
  const host = await startControllerHost(t, pki)
  const held = await silent(t, host, limits.handshakesPerPeerMax)
  await assert.rejects(asController(host, '127.0.0.1'), /ECONNRESET|socket hang up|disconnected/)
  assert.equal(held.filter(isClosed).length, 0)
  assert.equal((await asController(host, '127.0.0.2')).status, 200)
  await eventually(() => host.logLines.some((line) => line.includes('too_many_handshakes')))
  held[0]?.destroy()
  await until(
    async () => (await asController(host, '127.0.0.1').catch(() => undefined))?.status,
    (status) => status === 200,
  )
})

test('however many peers hold silent connections, the controller is let in, and their oldest one is closed', async (t) => {
  const host = await startControllerHost(t, pki)
  const held: Socket[] = []
  for (let peer = 0; held.length < limits.handshakesMax; peer += 1)
    held.push(...(await silent(t, host, limits.handshakesPerPeerMax, `127.0.1.${peer + 1}`)))
  assert.equal((await asController(host, '127.0.0.2')).status, 200)
  held[0]?.resume()
  await eventually(() => held[0] !== undefined && isClosed(held[0]))
  assert.equal(held.slice(1).filter(isClosed).length, 0)
})

test('connections that were let in do not count', async (t) => {
  const host = await startControllerHost(t, pki)
  const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })
  t.after(() => agent.destroy())
  const client = clientWith(pki, pki.controller, { agent })
  const calls = Array.from({ length: 200 }, () => send(host.port, { path: '/healthz', client }))
  for (const answer of await Promise.all(calls)) assert.equal(answer.status, 200)
  await silent(t, host, limits.handshakesPerPeerMax - 1)
  assert.equal((await asController(host, '127.0.0.1')).status, 200)
})

test('however many connections a reader holds, the controller is let in', async (t) => {
  const host = await startControllerHost(t, pki, { clients: [{ commonName: 'metrics', role: 'reader' }] })
  const reader = await pki.issue({ commonName: 'metrics' })
  const asReader = (more?: RequestOptions): Promise<Answer> =>
    send(host.port, { path: '/healthz', client: clientWith(pki, reader, more) })
  const atOnce = 64
  const agents: Agent[] = []
  t.after(() => agents.forEach((agent) => agent.destroy()))
  for (let held = 0; held < limits.connectionsOthersMax; held += atOnce) {
    const agent = new Agent({ keepAlive: true, maxSockets: atOnce })
    agents.push(agent)
    // They stay open until the agent is destroyed.
    const answers = await Promise.all(Array.from({ length: atOnce }, () => asReader({ agent })))
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
  }
  await assert.rejects(asReader(), /ECONNRESET|socket hang up|disconnected/)
  assert.equal((await asController(host, '127.0.0.1')).status, 200)
  await eventually(() => host.logLines.some((line) => line.includes('too_many_connections')))
  agents[0]?.destroy()
  await until(
    async () => (await asReader().catch(() => undefined))?.status,
    (status) => status === 200,
  )
})
