import assert from 'node:assert/strict'
import { once } from 'node:events'
import { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { Duplex } from 'node:stream'
import { test } from 'node:test'
import { TLSSocket } from 'node:tls'
import { until } from '../../../test/contract/until.ts'
import { limits } from '../../config/limits.ts'
import { ok } from '../../lib/result.ts'
import { silentLog } from '../../log/log.ts'
import { plainTransport, tlsTransport } from './transports.ts'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'

test('the certificate of a connection is read once, however many requests come over it', (t) => {
  const transport = tlsTransport({
    secure: {},
    admit: () => ok('controller'),
    beginsUpgrade: () => false,
    isRevoked: () => false,
    hasRoom: () => true,
    log: silentLog,
  })
  const connection = new TLSSocket(new Duplex())
  const shown = { subject: { CN: 'controller' }, serialNumber: '0A' }
  const reads = t.mock.method(connection, 'getPeerCertificate', () => shown)
  const peers = [1, 2].map(() => transport.peer(new IncomingMessage(connection)))
  assert.deepEqual(
    peers.map(({ certificate_name }) => certificate_name),
    ['controller', 'controller'],
  )
  assert.equal(reads.mock.callCount(), 1)
  connection.destroy()
})

/** Opens a connection to a server that keeps its responses for the test. */
async function serve(t: TestContext) {
  const responses: ServerResponse[] = []
  const server = plainTransport(() => true).createServer(
    (_request, response) => void responses.push(response),
  )
  server.on('upgrade', (_request, socket) => socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  await once(socket, 'connect')
  t.after(() => {
    socket.destroy()
    server.close()
  })
  return { responses, socket }
}

const REQUEST = 'GET / HTTP/1.1\r\nHost: localhost\r\n'

test('a connection with too many unanswered requests is closed, and holds no more of them', async (t) => {
  const { responses, socket } = await serve(t)
  socket.resume().write(`${REQUEST}\r\n`.repeat(10 * limits.requestsPerConnectionMax))
  await once(socket, 'close')
  assert.equal(responses.length, limits.requestsPerConnectionMax)
})

test('a connection may have any number of requests one after the other', async (t) => {
  const { responses, socket } = await serve(t)
  for (let sent = 0; sent < 2 * limits.requestsPerConnectionMax; sent += 1) {
    socket.write(`${REQUEST}\r\n`)
    await until(
      () => responses.length,
      (count) => count === sent + 1,
    )
    responses[sent]?.end('answer')
    await once(socket, 'data')
  }
  assert.ok(!socket.destroyed)
})

test('a request behind one without an answer does not become another protocol', async (t) => {
  const { responses, socket } = await serve(t)
  const upgrade = `${REQUEST}Connection: upgrade\r\nUpgrade: websocket\r\n\r\n`
  socket.write(`${REQUEST}\r\n${upgrade}`)
  await until(
    () => responses.length,
    (count) => count === 2,
  )
})
