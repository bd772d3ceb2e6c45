import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { ConnectionCounts, HeldAnswers } from './client-bounds.ts'
import { connect } from 'node:net'
import { until } from '../../../test/contract/until.ts'
import { plainTransport } from './transports.ts'
import type { TLSSocket } from 'node:tls'
import type { AddressInfo, Socket } from 'node:net'
import type { TestContext } from 'node:test'

test('a node has so many connections at once, whatever other nodes have', () => {
  const connections = new ConnectionCounts(limits.connectionsOfNodeMax)
  const open = (): TLSSocket => new EventEmitter() as TLSSocket
  const sockets = Array.from({ length: limits.connectionsOfNodeMax }, open)
  for (const socket of sockets) assert.ok(connections.admit('host-1', socket))
  assert.ok(!connections.admit('host-1', open()))
  assert.ok(connections.admit('host-2', open()))
  sockets[0]?.emit('close')
  assert.ok(connections.admit('host-1', open()))
  assert.ok(!connections.admit('host-1', open()))
})

/** Larger than what the kernel takes for a client that reads nothing. */
const ANSWER = Buffer.alloc(8 * 1024 * 1024, 'x')

async function serve(t: TestContext, answersMax: number) {
  const closed: (number | undefined)[] = []
  const held = new HeldAnswers(answersMax * ANSWER.length, ({ certificate_name: name }) =>
    closed.push(Number(name)),
  )
  const server = plainTransport(() => false).createServer((request, response) => {
    response.setHeader('content-length', ANSWER.length)
    held.note(response, ANSWER.length, { certificate_name: String(request.socket.remotePort) })
    response.end(ANSWER)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close().closeAllConnections())
  const { port } = server.address() as AddressInfo
  /** Asks so many times at once, and reads nothing. */
  const ask = async (times = 1): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined)
    t.after(() => socket.destroy())
    await once(socket, 'connect')
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(times))
    return socket
  }
  /** Asks once, and reads the whole answer. */
  const take = async (): Promise<void> => {
    const socket = await ask()
    let bytes = 0
    for await (const chunk of socket) if ((bytes += (chunk as Buffer).length) > ANSWER.length) break
  }
  return { ask, take, closed }
}

test('beyond the bound, the connection closes whose client has taken nothing for longest', async (t) => {
  const { ask, take, closed } = await serve(t, 2)
  const first = await ask()
  const second = await ask()
  await ask()
  const isClosed = (count: number): Promise<unknown> =>
    until(
      () => closed.length,
      (length) => length >= count,
    )
  await isClosed(1)
  assert.deepEqual(closed, [first.localPort])
  await take()
  await isClosed(2)
  await take()
  assert.deepEqual(closed, [first.localPort, second.localPort], 'what is taken leaves by itself')
})

test('answers that were asked for at once count together, and go with their connection', async (t) => {
  const { ask, take, closed } = await serve(t, 2)
  const greedy = await ask(3)
  await until(
    () => closed.length,
    (length) => length > 0,
  )
  assert.deepEqual(closed, [greedy.localPort])
  for (let taken = 0; taken < 4; taken++) await take()
  assert.equal(closed.length, 1)
})
