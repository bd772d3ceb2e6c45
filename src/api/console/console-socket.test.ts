import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { ConsoleSocket } from './console-socket.ts'
import type { WebSocket } from 'ws'

/** Stands for the socket of the library, whose messages a test makes. */
class FakeSocket extends EventEmitter {
  readonly OPEN = 1
  readonly readyState = 1
  readonly bufferedAmount = 0
  isPaused = false

  pause(): void {
    this.isPaused = true
  }

  resume(): void {
    this.isPaused = false
  }

  ping(): void {}
}

test('input of a viewer that is held back is kept as bytes, in however many messages it came', async () => {
  const socket = new FakeSocket()
  let nowMs = 0
  let timer = (): void => {}
  const time = {
    monotonicMs: () => nowMs,
    after: (_ms: number, callback: () => void) => {
      timer = callback
      return () => {}
    },
  }
  const viewer = new ConsoleSocket(socket as unknown as WebSocket, { time, onBug: () => assert.fail() })
  const inputs: Uint8Array[] = []
  viewer.listen({
    onInput: (bytes) => inputs.push(bytes),
    onResize: () => {},
    onPosition: () => {},
    onOutputPaused: () => {},
    onClosed: () => {},
  })
  viewer.pauseInput()
  for (const _ of ['alive until now', 'silent, so it is read']) timer()
  assert.ok(!socket.isPaused)
  const count = limits.consoleMessagesBurst / 2
  for (let at = 0; at < count; at += 1) {
    socket.emit('message', Buffer.from([at % 256]), true)
    socket.emit('message', Buffer.alloc(0), true)
  }
  nowMs += 1000
  viewer.resumeInput()
  await nextTurn()
  const expected = Buffer.from(Array.from({ length: count }, (_, at) => at % 256))
  assert.deepEqual(Buffer.concat(inputs), expected)
  assert.equal(inputs.length, 1)
})
