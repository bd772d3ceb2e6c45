import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as tlsConnect } from 'node:tls'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { makePki, startControllerHost } from './support/controller-host.ts'
import { eventually } from './support/eventually.ts'
import type { TLSSocket } from 'node:tls'
import type { ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const MIB = 1024 * 1024
const PIECE = Buffer.alloc(64 * 1024, 0x20)

async function connected(host: ControllerHost): Promise<TLSSocket> {
  const { certificate: cert, key } = pki.controller
  const ca = pki.authority.certificate
  const socket = tlsConnect({ port: host.port, host: '127.0.0.1', ca, cert, key })
  await once(socket, 'secureConnect')
  return socket
}

/** Returns the answer that the simplest client gets: it writes all of its request, and only then reads. */
async function writeAllThenRead(host: ControllerHost, bodyBytes: number, chunked = false): Promise<string> {
  const socket = await connected(host)
  // Reading starts with the first listener.
  socket.pause()
  const failed = once(socket, 'close').then(() => {
    throw new Error('the connection was cut while the client wrote')
  })
  failed.catch(() => {})
  const broke = Promise.withResolvers<never>()
  broke.promise.catch(() => {})
  socket.on('error', broke.reject)
  const write = (bytes: Buffer | string): Promise<void> =>
    Promise.race([
      broke.promise,
      failed,
      new Promise<void>((resolve) => socket.write(bytes, () => resolve())),
    ])
  const length = chunked ? 'transfer-encoding: chunked' : `content-length: ${bodyBytes}`
  await write(`PUT /v1/vms/web-1 HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${length}\r\n\r\n`)
  for (let sent = 0; sent < bodyBytes; sent += PIECE.length) {
    const piece = PIECE.subarray(0, Math.min(PIECE.length, bodyBytes - sent))
    await write(
      chunked
        ? Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')])
        : piece,
    )
  }
  if (chunked) await write('0\r\n\r\n')
  let text = ''
  socket.on('data', (chunk: Buffer) => (text += chunk.toString())).resume()
  await Promise.race([once(socket, 'end'), broke.promise])
  socket.destroy()
  return text
}

for (const [mib, chunked] of [
  [1.1, false],
  [3, false],
  [20, false],
  [20, true],
] as const) {
  test(
    `a client that writes ${mib} MiB${chunked ? ' in chunks' : ''} before it reads anything gets the whole 413`,
    { timeout: 60_000 },
    async (t) => {
      const host = await startControllerHost(t, pki)
      const text = await writeAllThenRead(host, Math.round(mib * MIB), chunked)
      assert.match(text, /^HTTP\/1\.1 413 /)
      assert.match(text, /\r\nconnection: close\r\n/i)
      assert.equal(JSON.parse(text.slice(text.indexOf('\r\n\r\n'))).code, 'body_too_large')
      assert.ok(host.logLines.some((line) => line.includes('"status":413')))
    },
  )
}

test('a client that writes past the bound of discarded bytes is cut off', { timeout: 60_000 }, async (t) => {
  const host = await startControllerHost(t, pki)
  const far = limits.refusedBodyBytesMax * 4
  await assert.rejects(writeAllThenRead(host, far), /EPIPE|ECONNRESET|cut/)
})

test(
  'the answer does not wait for the body: a client that reads first has it at once',
  { timeout: 60_000 },
  async (t) => {
    const host = await startControllerHost(t, pki)
    const socket = await connected(host)
    let text = ''
    socket.on('data', (chunk: Buffer) => (text += chunk.toString())).on('error', () => {})
    socket.write(
      `PUT /v1/vms/web-1 HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${2 * MIB}\r\n\r\n`,
    )
    await eventually(() => text.endsWith('}'))
    assert.match(text, /^HTTP\/1\.1 413 /)
    socket.destroy()
  },
)

test(
  'a client that writes neither its body nor an end is cut off after a while',
  { timeout: 60_000 },
  async (t) => {
    const host = await startControllerHost(t, pki)
    const socket = await connected(host)
    socket.on('error', () => {}).resume()
    const closed = once(socket, 'close')
    const startedAt = performance.now()
    socket.write(
      `PUT /v1/vms/web-1 HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${2 * MIB}\r\n\r\n`,
    )
    await closed
    const ms = performance.now() - startedAt
    assert.ok(ms > limits.refusedBodyMs - 1000 && ms < limits.refusedBodyMs + 10_000, `after ${ms} ms`)
  },
)
