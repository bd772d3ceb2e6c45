import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:tls'
import { test } from 'node:test'
import fastify from 'fastify'
import { silentLog } from '../../log/log.ts'
import { createAuthority, issueCertificate } from '../../daemon/setup/certificates.ts'
import { sendStream, sendWhenReady } from './streams.ts'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import type { FastifyReply } from 'fastify'

const STALL_MS = 200

/** Serves a route over TLS, and connects to it. */
async function serving(route: (reply: FastifyReply) => Promise<unknown>) {
  const authority = await createAuthority('test authority', Date.now())
  const leaf = { commonName: 'localhost', alternativeNames: ['localhost'], usages: ['server'] } as const
  const { certificate: cert, key } = await issueCertificate(authority, leaf, Date.now())
  const app = fastify({ https: { cert, key } })
  app.get('/', (_request, reply) => route(reply))
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ca: authority.certificate })
  await once(socket, 'secureConnect')
  socket.on('error', () => {})
  return { app, socket }
}

test('a client that takes nothing of a stream is cut off', async (t) => {
  const ended = Promise.withResolvers<void>()
  async function* endless(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) yield new Uint8Array(64 * 1024)
    } finally {
      ended.resolve()
    }
  }
  const { app, socket } = await serving((reply) => sendStream(reply, endless(), silentLog, STALL_MS))
  t.after(() => app.close())
  t.after(() => socket.destroy())
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await once(socket, 'data')
  socket.pause()
  await ended.promise
})

/** The answer to a request for JSON that is not ready when the first bytes of the answer have come. */
async function answerWhile(t: TestContext, settle: (making: PromiseWithResolvers<object>) => void) {
  const making = Promise.withResolvers<object>()
  const { app, socket } = await serving((reply) => sendWhenReady(reply, making.promise, silentLog, 1))
  t.after(() => app.close())
  t.after(() => socket.destroy())
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
  let text = ''
  socket.on('data', (bytes: Buffer) => {
    text += bytes.toString()
    if (/\r\n\r\n.*1\r\n \r\n/s.test(text)) settle(making)
  })
  await once(socket, 'close')
  const [head = '', ...chunks] = text.split('\r\n').filter((line) => !/^[0-9a-f]+$/.test(line))
  return { head, text, body: chunks.slice(chunks.indexOf('') + 1).join('') }
}

test('an answer that is not ready begins with white space, and is then the same JSON', async (t) => {
  const { head, text, body } = await answerWhile(t, ({ resolve }) => resolve({ number: 2 }))
  assert.match(head, /^HTTP\/1.1 200 /)
  assert.match(text, /content-type: application\/json/i)
  assert.match(body, /^ +\{/)
  assert.deepEqual(JSON.parse(body), { number: 2 })
  assert.ok(text.endsWith('0\r\n\r\n'), 'it has its end')
})

test('an answer that fails after its first white space is cut', async (t) => {
  const { body, text } = await answerWhile(t, ({ reject }) => reject(new Error('on purpose')))
  assert.match(body, /^ +$/)
  assert.ok(!text.endsWith('0\r\n\r\n'), 'it has no end')
})

test('an answer that fails before any white space fails as one that is not waited for', async () => {
  const failure = new Error('on purpose')
  await assert.rejects(sendWhenReady({} as FastifyReply, Promise.reject(failure), silentLog), failure)
})
