import { once } from 'node:events'
import { connect } from 'node:tls'
import { test } from 'node:test'
import fastify from 'fastify'
import { silentLog } from '../../log/log.ts'
import { createAuthority, issueCertificate } from '../../daemon/setup/certificates.ts'
import { sendStream } from './streams.ts'
import type { AddressInfo } from 'node:net'

const STALL_MS = 200

/** Serves a stream without end over TLS, and returns when its source was closed. */
async function served() {
  const authority = await createAuthority('test authority', Date.now())
  const leaf = { commonName: 'localhost', alternativeNames: ['localhost'], usages: ['server'] } as const
  const { certificate: cert, key } = await issueCertificate(authority, leaf, Date.now())
  const app = fastify({ https: { cert, key } })
  const ended = Promise.withResolvers<void>()
  async function* endless(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) yield new Uint8Array(64 * 1024)
    } finally {
      ended.resolve()
    }
  }
  app.get('/', (_request, reply) => sendStream(reply, endless(), silentLog, STALL_MS))
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ca: authority.certificate })
  await once(socket, 'secureConnect')
  socket.on('error', () => {})
  return { app, socket, ended: ended.promise }
}

test('a client that takes nothing of a stream is cut off', async (t) => {
  const { app, socket, ended } = await served()
  t.after(() => app.close())
  t.after(() => socket.destroy())
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await once(socket, 'data')
  socket.pause()
  await ended
})
