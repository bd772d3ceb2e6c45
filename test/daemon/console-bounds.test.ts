import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { until } from '../contract/until.ts'
import { collectGarbage } from './support/collect-garbage.ts'
import { makePki, startControllerHost } from './support/controller-host.ts'
import { createVm, dial, startConsole, TestViewer, watch, WEB } from './support/console-viewer.ts'
import { rawViewer } from './support/raw-websocket.ts'
import type { TestContext } from 'node:test'
import type { FakeSession } from '../fakes/fake-session.ts'
import type { ControllerHost, Pki } from './support/controller-host.ts'
import type { Frame, RawConnection } from './support/raw-websocket.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

type Stage = {
  readonly host: ControllerHost
  readonly session: FakeSession
  readonly watch: () => Promise<TestViewer>
  readonly raw: () => Promise<RawConnection>
}

async function stage(t: TestContext): Promise<Stage> {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const session = await startConsole(host)
  return { host, session, watch: () => watch(t, host, pki), raw: () => rawViewer(t, host, pki) }
}

const typedBy = (session: FakeSession, done: (typed: string) => boolean): Promise<string> =>
  until(() => session.terminal.typed, done)

const text = (message: string): Frame => ({ opcode: 1, payload: Buffer.from(message) })
const binary = (bytes: string): Frame => ({ opcode: 2, payload: Buffer.from(bytes) })
const ping: Frame = { opcode: 9 }

const BLOCK = 192 * 1024

/** Lets the guest write blocks, each after the viewer has the one before. Counts the output instead of keeping it. */
function pour(session: FakeSession, viewer: TestViewer) {
  const [said, seen] = [createHash('sha256'), createHash('sha256')]
  let [saidBytes, seenBytes] = [0, 0]
  viewer.socket.removeAllListeners('message')
  viewer.socket.on('message', (data: Buffer, isBinary) => {
    if (!isBinary) return
    seen.update(data)
    seenBytes += data.length
  })
  return {
    block: async (): Promise<void> => {
      const block = Buffer.alloc(BLOCK, saidBytes / BLOCK)
      said.update(block)
      saidBytes += BLOCK
      session.say(block)
      await until(
        () => seenBytes,
        (bytes) => bytes === saidBytes,
      )
    },
    assertAllSeen: () => assert.equal(seen.digest('hex'), said.digest('hex')),
  }
}

/** Returns the bytes that buffers hold, after garbage collection. */
function heldBytes(): number {
  collectGarbage()
  return process.memoryUsage().arrayBuffers
}

/** Pours until only one viewer is served, and returns the number of bytes. Fails if that does not happen. */
async function pourUntilOneIsLeft(session: FakeSession, block: () => Promise<void>): Promise<number> {
  for (let count = 1; count <= 1024; count += 1) {
    const spentBefore = session.spent
    await block()
    if (session.spent - spentBefore === BLOCK) return count * BLOCK
  }
  throw new Error('the viewer that does not read is still served')
}

test('a viewer that does not read is closed; the others get every byte', async (t) => {
  const { host, session, watch: look } = await stage(t)
  const [reading, stalled] = [await look(), await look()]
  stalled.tls.pause()
  const { block, assertAllSeen } = pour(session, reading)
  await pourUntilOneIsLeft(session, block)
  // The viewer reads again before it is cut off, and learns why it was closed.
  stalled.tls.resume()
  assert.deepEqual(await stalled.ended(), { status: 1013, reason: 'viewer_behind' })
  await block()
  assertAllSeen()
  assert.equal(host.hub.viewers(WEB), 1)
})

test('a viewer that never reads again is cut off, and holds only its share meanwhile', async (t) => {
  const { host, session, watch: look } = await stage(t)
  const [reading, stalled] = [await look(), await look()]
  stalled.tls.pause()
  const { block, assertAllSeen } = pour(session, reading)
  const atFirst = heldBytes()
  const held: number[] = []
  // Continue long after the kernel's buffers are full.
  for (let count = 0; count < 256; count += 1) {
    await block()
    if (count % 16 === 0) held.push(heldBytes() - atFirst)
  }
  // At times more bytes are on their way to the viewer that reads.
  const usual = held.toSorted((a, b) => a - b)[held.length / 2] ?? Infinity
  assert.ok(usual < 2 * limits.consoleViewerBehindBytesMax, `${held.join(', ')} bytes more than before`)
  await until(
    () => host.hub.viewers(WEB),
    (taken) => taken === 1,
  )
  assertAllSeen()
  const line = await until(
    () => host.logLines.find((one) => one.includes('console viewer disconnected')),
    (found) => found !== undefined,
  )
  assert.match(line ?? '', /"code":"viewer_behind"/)
})

test('messages pass at the rate of a terminal, with a burst; beyond it the viewer is closed', async (t) => {
  const { host, session, raw } = await stage(t)
  const viewer = await raw()
  viewer.send(...Array.from({ length: limits.consoleMessagesBurst }, () => binary('x')))
  await typedBy(session, ({ length }) => length === limits.consoleMessagesBurst)
  host.clock.advance(500)
  const more = limits.consoleMessagesPerSecond / 2
  viewer.send(...Array.from({ length: more + 100 }, () => binary('y')))
  assert.deepEqual(await viewer.closed(), { status: 1008, reason: 'too_many_messages' })
  assert.equal(session.terminal.typed.length, limits.consoleMessagesBurst + more)
})

test('control frames count as messages', async (t) => {
  const { raw } = await stage(t)
  for (const opcode of [9, 10]) {
    const viewer = await raw()
    // In pieces, so that there is time to answer each.
    for (let sent = 0; sent <= limits.consoleMessagesBurst; sent += 50) {
      viewer.send(...Array.from({ length: 50 }, () => ({ opcode })))
      viewer.send()
      await new Promise(setImmediate)
    }
    assert.deepEqual(await viewer.closed(), { status: 1008, reason: 'too_many_messages' })
  }
})

test('a message may be as large as the limit, and no larger', async (t) => {
  const { session, raw } = await stage(t)
  const viewer = await raw()
  viewer.send(binary('x'.repeat(limits.consoleMessageBytesMax)))
  await typedBy(session, ({ length }) => length === limits.consoleMessageBytesMax)
  viewer.send({ opcode: 2, saidLength: limits.consoleMessageBytesMax + 1 })
  assert.deepEqual(await viewer.closed(), { status: 1009, reason: 'message_too_big' })
  // The viewer never answers the close.
  await viewer.over()
})

test('fragments are also bounded in total size', async (t) => {
  const { session, raw } = await stage(t)
  const viewer = await raw()
  const half = Buffer.alloc(limits.consoleMessageBytesMax / 2 + 1)
  viewer.send({ opcode: 2, fin: false, payload: half }, { opcode: 0, payload: half })
  assert.deepEqual(await viewer.closed(), { status: 1009, reason: 'message_too_big' })
  assert.equal(session.terminal.typed, '')
})

test('a message in fragments is one message, with control frames in between', async (t) => {
  const { session, raw } = await stage(t)
  const viewer = await raw()
  const part = (opcode: number, bytes: string, fin = false): Frame => ({ ...binary(bytes), opcode, fin })
  viewer.send(part(2, 'he'), { ...ping, payload: Buffer.from('are you there') }, part(0, ''))
  viewer.send(part(0, 'll'), ping, part(0, 'o', true), binary('!'))
  assert.equal(await typedBy(session, (typed) => typed.endsWith('!')), 'hello!')
  assert.equal((await viewer.frame(10)).payload.toString(), 'are you there')
})

test('text that is not understood is answered with an error, and the session continues', async (t) => {
  const { session, watch: look } = await stage(t)
  const viewer = await look()
  const cases: readonly (readonly [sent: string, code: string, detail: RegExp])[] = [
    ['ls -l\r', 'not_json', /binary messages.*resize or position or output/],
    ['[]', 'unknown_message', /one member/],
    ['{}', 'unknown_message', /one member/],
    ['{"resize":{"cols":80,"rows":24},"position":{}}', 'unknown_message', /one member/],
    [
      '{"rezise":{"cols":80,"rows":24}}',
      'unknown_message',
      /\/rezise is not known here; did you mean resize/,
    ],
    ['{"__proto__":{}}', 'unknown_message', /__proto__/],
    ['{"resize":{"cols":0,"rows":24}}', 'invalid_message', /\/resize\/cols must be between 1 and 1000/],
    ['{"resize":{"cols":80,"rows":1001}}', 'invalid_message', /\/resize\/rows must be between 1 and 1000/],
    ['{"resize":{"cols":80}}', 'invalid_message', /\/resize\/rows is missing/],
    ['{"position":null}', 'invalid_message', /\/position must be an object/],
  ]
  for (const [index, [sent, code, detail]] of cases.entries()) {
    viewer.socket.send(sent)
    const { error } = await viewer.message(index + 1)
    assert.equal(error.code, code, sent)
    assert.match(error.detail, detail, sent)
  }
  assert.deepEqual(session.terminal.window, { cols: 80, rows: 24 })
  viewer.type('still here')
  assert.equal(await typedBy(session, (typed) => typed !== ''), 'still here')
})

test('a breach of the protocol ends the connection with its reason, and affects no other viewer', async (t) => {
  const { host, session, watch: look, raw } = await stage(t)
  const other = await look()
  const breaches: readonly (readonly [name: string, frame: Frame, status: number, reason: string])[] = [
    ['no mask', { ...binary('x'), mask: null }, 1002, 'protocol_error'],
    ['a reserved bit', { ...binary('x'), rsv: 4 }, 1002, 'protocol_error'],
    ['a reserved opcode', { opcode: 3 }, 1002, 'protocol_error'],
    ['a continuation of nothing', { opcode: 0 }, 1002, 'protocol_error'],
    ['a ping in fragments', { ...ping, fin: false }, 1002, 'protocol_error'],
    ['a ping that is too long', { ...ping, payload: Buffer.alloc(126) }, 1002, 'protocol_error'],
    ['text that is not UTF-8', { opcode: 1, payload: Buffer.from([0xff]) }, 1007, 'not_utf8'],
    ['a close with half a status', { opcode: 8, payload: Buffer.from([3]) }, 1002, 'protocol_error'],
  ]
  for (const [name, frame, status, reason] of breaches) {
    const viewer = await raw()
    viewer.send(binary('.'), frame, binary('never'))
    assert.deepEqual(await viewer.closed(), { status, reason }, name)
    viewer.socket.end()
    await viewer.over()
  }
  await until(
    () => host.hub.viewers(WEB),
    (taken) => taken === 1,
  )
  assert.equal(session.terminal.typed, '.'.repeat(breaches.length))
  assert.ok(!other.isOver)
})

test('a viewer that answers no ping until the next is gone; one that answers, or sends anything, stays', async (t) => {
  const { host, watch: look, raw } = await stage(t)
  const [silent, talking, answering] = [await raw(), await raw(), await look()]
  host.clock.advance(limits.consolePingMs)
  await silent.frame(9)
  talking.send(text('{"position":{}}'))
  await until(
    () => talking.frames().filter(({ opcode }) => opcode === 1),
    ({ length }) => length === 2,
  )
  // The answer to this message comes after the pong.
  answering.send({ position: {} })
  await answering.message(1)
  host.clock.advance(limits.consolePingMs)
  await silent.over()
  await until(
    () => host.hub.viewers(WEB),
    (taken) => taken === 2,
  )
  assert.ok(!talking.isOver && !answering.isOver)
})

test('a silent viewer is dropped while the guest does not read, and its place is free', async (t) => {
  const { host, session, watch: look, raw } = await stage(t)
  session.readInput(false)
  const [typing, silent] = [await look(), await raw()]
  for (let sent = 0; sent <= limits.consoleInputBytesMax; sent += limits.consoleMessageBytesMax)
    typing.type(Buffer.alloc(limits.consoleMessageBytesMax))
  await until(
    () => session.inputWaiting,
    (waiting) => waiting > limits.consoleInputBytesMax,
  )
  host.clock.advance(3 * limits.consolePingMs)
  await silent.over()
  await until(
    () => host.hub.viewers(WEB),
    (taken) => taken < 2,
  )
})

test('a bug at the beginning of a console ends it, and frees its place', async (t) => {
  const { host, watch: look } = await stage(t)
  t.mock.method(host.hub, 'watch', () => {
    throw new Error('a bug')
  })
  const viewer = new TestViewer(dial(host, pki, {}))
  assert.deepEqual(await viewer.ended(), { status: 1011, reason: 'internal' })
  await until(
    () => host.hub.viewers(WEB),
    (taken) => taken === 0,
  )
  assert.match(host.logLines.join(''), /"level":"error".*console upgrade failed: internal error/)
  t.mock.restoreAll()
  await look()
})

test('a viewer may close by itself, and its place is free', async (t) => {
  const { host, raw } = await stage(t)
  const viewer = await raw()
  viewer.send({ opcode: 8, payload: Buffer.from([0x03, 0xe8]) })
  assert.deepEqual(await viewer.closed(), { status: 1000, reason: '' })
  await viewer.over()
  await until(
    () => host.hub.viewers(WEB),
    (taken) => taken === 0,
  )
})

test('when the daemon stops, all viewers are notified at once', async (t) => {
  const { host, session, watch: look } = await stage(t)
  const viewers = await Promise.all([look(), look(), look()])
  session.say(Buffer.from('last words'))
  await viewers[0]?.shows('last words')
  await host.close(10_000)
  for (const viewer of viewers)
    assert.deepEqual(await viewer.ended(), { status: 1001, reason: 'daemon_stops' })
})

test('a viewer that does not answer the end delays the daemon only up to its bound', async (t) => {
  const { host, raw } = await stage(t)
  const viewer = await raw()
  const began = performance.now()
  await host.close(100)
  assert.ok(performance.now() - began < limits.consoleCloseMs)
  assert.deepEqual(await viewer.closed(), { status: 1001, reason: 'daemon_stops' })
  await viewer.over()
})
