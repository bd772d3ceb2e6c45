/*
 * Begins handshakes with the controller's port without a certificate, many at a time, until it is killed. Each repeats
 * the same first message and disconnects at the answer: it costs the server a key exchange and a signature, and the
 * peer almost nothing.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { Duplex } from 'node:stream'
import { connect as beginTls } from 'node:tls'

const AT_A_TIME = 64

const hello = await clientHello()
for (let n = 0; n < AT_A_TIME; n += 1) again()
process.stdout.write('ready\n')

/** Returns the first message of a TLS client. */
async function clientHello(): Promise<Buffer> {
  const written = Promise.withResolvers<Buffer>()
  const way = new Duplex({
    read() {},
    write: (chunk: Buffer, _encoding, done) => {
      written.resolve(chunk)
      done()
    },
  })
  const tls = beginTls({ socket: way, rejectUnauthorized: false })
  tls.on('error', () => {})
  const first = await written.promise
  tls.destroy()
  return first
}

function again(): void {
  const socket = connect({ host: '127.0.0.1', port: 9000, localAddress: '127.0.0.3' })
  socket.on('error', () => {}).on('data', () => socket.destroy())
  socket.write(hello)
  void once(socket, 'close').then(again, again)
}
