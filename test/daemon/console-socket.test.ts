import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:https'
import { before, test } from 'node:test'
import { WebSocket, WebSocketServer } from 'ws'
import { ConsoleSocket } from '../../src/api/console/console-socket.ts'
import { webSocketOptions } from '../../src/api/console/console-sockets.ts'
import { limits } from '../../src/config/limits.ts'
import { until } from '../contract/until.ts'
import { FakeClock } from '../fakes/fake-clock.ts'
import { TestViewer } from './support/console-viewer.ts'
import { makePki } from './support/controller-host.ts'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import type { ClientOptions } from 'ws'
import type { Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

type Pair = {
  readonly clock: FakeClock
  /** The daemon's end, and the library's socket below it. */
  readonly socket: ConsoleSocket
  readonly below: WebSocket
  /** All input that the daemon received. */
  readonly input: () => Buffer
  readonly viewer: TestViewer
}

/** Both ends of one connection over TLS. An answer to a close may take `closeMs`. */
async function pair(t: TestContext, closeMs: number, options: ClientOptions = {}): Promise<Pair> {
  const server = createServer({ key: pki.server.key, cert: pki.server.certificate })
  const bounds: typeof webSocketOptions = { ...webSocketOptions, closeTimeout: closeMs }
  const sockets = new WebSocketServer({ ...bounds, server })
  t.after(() => {
    for (const one of sockets.clients) one.terminate()
    server.close()
  })
  const clock = new FakeClock()
  const came = Promise.withResolvers<Omit<Pair, 'viewer'>>()
  sockets.on('connection', (below: WebSocket) => {
    const onBug = (error: unknown): void => came.reject(error)
    const socket = new ConsoleSocket(below, { time: clock, onBug })
    const chunks: Uint8Array[] = []
    socket.listen({
      onInput: (bytes) => chunks.push(bytes),
      onResize: () => {},
      onPosition: () => {},
      onOutputPaused: () => {},
      onClosed: () => {},
    })
    came.resolve({ clock, socket, below, input: () => Buffer.concat(chunks) })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const ca = pki.authority.certificate
  const viewer = new TestViewer(new WebSocket(`wss://127.0.0.1:${port}`, { ca, ...options }))
  t.after(() => viewer.socket.terminate())
  await once(viewer.socket, 'open')
  return { ...(await came.promise), viewer }
}

/** Sends to a viewer that does not read until the kernel accepts no more; returns the number of bytes. */
async function fill({ socket, viewer }: Pair): Promise<number> {
  viewer.tls.pause()
  const piece = 128 * 1024
  let sent = 0
  await until(
    () => {
      socket.output(Buffer.alloc(piece, 'x'))
      sent += piece
      return socket.unsentBytes
    },
    (unsent) => unsent > 4 * piece,
  )
  return sent
}

const isGone = ({ below }: Pair): Promise<number> =>
  until(
    () => below.readyState,
    (state) => state === below.CLOSED,
  )

test('a slow viewer gets the last output and the reason, however short the time to answer is', async (t) => {
  const slow = await pair(t, 1)
  const sent = await fill(slow)
  slow.socket.close('vm_stopped')
  slow.socket.output(Buffer.from('never'))
  slow.clock.advance(limits.consoleLastOutputMs - 1)
  slow.viewer.tls.resume()
  assert.deepEqual(await slow.viewer.ended(), { status: 1000, reason: 'vm_stopped' })
  assert.equal(slow.viewer.bytes.length, sent)
})

test('a viewer that does not take the last output is cut off', async (t) => {
  const stalled = await pair(t, 1)
  await fill(stalled)
  stalled.socket.close('shell_ended')
  assert.equal(stalled.socket.isOpen, false)
  assert.equal(stalled.below.readyState, stalled.below.OPEN, 'the close waits')
  stalled.clock.advance(limits.consoleLastOutputMs)
  await isGone(stalled)
})

test('a daemon that stops does not wait for a viewer that does not read, even for last output', async (t) => {
  for (const earlier of [[], ['vm_stopped']] as const) {
    const stalled = await pair(t, 1)
    await fill(stalled)
    for (const code of earlier) stalled.socket.close(code)
    stalled.socket.close('daemon_stops')
    await isGone(stalled)
  }
})

test('a viewer that is held back is read again for its answer to a close', async (t) => {
  const { socket, viewer } = await pair(t, 600_000)
  socket.pauseInput()
  socket.close('vm_deleted')
  assert.deepEqual(await viewer.ended(), { status: 1000, reason: 'vm_deleted' })
})

test('a viewer that is held back and answers nothing is gone after three pings', async (t) => {
  const silent = await pair(t, 1, { autoPong: false })
  silent.socket.pauseInput()
  silent.clock.advance(3 * limits.consolePingMs)
  await isGone(silent)
})

test('a viewer that is held back and answers stays; its input meanwhile comes once, in order, and not before', async (t) => {
  const held = await pair(t, 1)
  const { clock, socket, below, viewer } = held
  socket.pauseInput()
  for (let round = 0; round < 5; round += 1) {
    viewer.type(`${round};`)
    clock.advance(limits.consolePingMs)
    clock.advance(limits.consolePingMs)
    await until(
      () => below.isPaused,
      (isPaused) => isPaused,
    )
  }
  assert.equal(held.input().length, 0)
  socket.resumeInput()
  viewer.type('5;')
  const typed = await until(
    () => held.input().toString(),
    (text) => text.endsWith('5;'),
  )
  assert.equal(typed, '0;1;2;3;4;5;')
  assert.ok(socket.isOpen)
})

test('a viewer that is held back and sends without end is read only up to a bound', async (t) => {
  const flooding = await pair(t, 1)
  const { clock, socket, below, viewer } = flooding
  socket.pauseInput()
  const piece = Buffer.alloc(limits.consoleMessageBytesMax, 'z')
  const pieces = 64
  for (let count = 0; count < pieces; count += 1) viewer.type(piece)
  let looks = 0
  for (; looks < pieces; looks += 1) {
    clock.advance(limits.consolePingMs)
    clock.advance(limits.consolePingMs)
    if (below.isPaused) break
    await until(
      () => below.isPaused,
      (isPaused) => isPaused,
    )
  }
  assert.ok(looks < pieces / 2, `it was read ${looks} times`)
  assert.equal(flooding.input().length, 0)
  socket.resumeInput()
  await until(
    () => flooding.input().length,
    (length) => length === pieces * piece.length,
  )
})

test('typed input continues to wait if its first part fills the guest again', async (t) => {
  const { clock, socket, below, viewer } = await pair(t, 1)
  const seen: string[] = []
  socket.listen({
    onInput: (bytes) => {
      seen.push(Buffer.from(bytes).toString())
      socket.pauseInput()
    },
    onResize: () => {},
    onPosition: () => {},
    onOutputPaused: () => {},
    onClosed: () => {},
  })
  socket.pauseInput()
  // In one packet, so that one read gets all of it.
  viewer.tls.cork()
  // Each is as much as is passed on at a time.
  const [a = '', b = '', c = ''] = ['a', 'b', 'c'].map((letter) => letter.repeat(4096))
  for (const text of [a, b, c]) viewer.type(text)
  viewer.tls.uncork()
  clock.advance(2 * limits.consolePingMs)
  await until(
    () => below.isPaused,
    (isPaused) => isPaused,
  )
  for (const so of [[a], [a, b], [a, b, c]]) {
    socket.resumeInput()
    await until(
      () => seen,
      ({ length }) => length >= so.length,
    )
    assert.deepEqual(seen, so)
  }
})
