import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { watchSocket } from './socket-watch.ts'
import type { TestContext } from 'node:test'
import type { Client } from './ssh2.ts'

const KEPT_MESSAGES_MAX = limits.sshKeptBytesMax / limits.sshMessageKeptBytes

type Stage = {
  readonly socket: Socket
  /** Lets the guest send messages of one byte in one piece of the stream. */
  readonly send: (messages: number) => void
  /** Lets the daemon send messages that the guest does not read. */
  readonly answer: (messages: number) => void
  readonly shell: { bytes: number | undefined }
  readonly floods: () => number
}

function watched(t: TestContext, bytesPerSecond: number): Stage {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const socket = new Socket()
  t.after(() => socket.destroy())
  Object.defineProperty(socket, 'bytesRead', { value: 1 })
  const numbers = { inSeqno: 0, outSeqno: 0 }
  const client = { _protocol: { _decipher: numbers, _cipher: numbers }, _resetKA: () => {} }
  const shell: Stage['shell'] = { bytes: 0 }
  let floods = 0
  watchSocket(client as unknown as Client, socket, {
    shellBytes: () => shell.bytes,
    onFlood: () => (floods += 1),
    bytesPerSecond,
  })
  const send = (messages: number): void => {
    numbers.inSeqno += messages
    socket.emit('data', Buffer.alloc(messages))
  }
  const answer = (messages: number): void => {
    numbers.outSeqno += messages
    Object.defineProperty(socket, 'writableLength', { value: messages, configurable: true })
  }
  return { socket, send, answer, shell, floods: () => floods }
}

test('a guest that sends short messages is read more slowly than its bytes alone would be', (t) => {
  const { socket, send } = watched(t, 1)
  const messages = limits.consoleMovedBurstBytes / limits.sshMessageMovedBytes
  send(1)
  assert.equal(socket.isPaused(), false)
  send(messages)
  assert.equal(socket.isPaused(), true)
})

test('a guest whose short messages are kept waits until its viewer has taken them', (t) => {
  const { socket, send, shell, floods } = watched(t, Number.MAX_SAFE_INTEGER)
  shell.bytes = KEPT_MESSAGES_MAX / 2
  send(KEPT_MESSAGES_MAX / 2)
  t.mock.timers.tick(limits.sshFullLookMs)
  assert.equal(socket.isPaused(), false)
  shell.bytes = KEPT_MESSAGES_MAX
  send(KEPT_MESSAGES_MAX / 2)
  t.mock.timers.tick(limits.sshFullLookMs)
  t.mock.timers.tick(limits.sshFullLookMs)
  assert.equal(socket.isPaused(), true)
  shell.bytes = 0
  t.mock.timers.tick(limits.sshFullLookMs)
  assert.equal(socket.isPaused(), false)
  assert.equal(floods(), 0)
})

test('a guest that sends many short messages before the shell is cut off', (t) => {
  const { send, shell, floods } = watched(t, Number.MAX_SAFE_INTEGER)
  shell.bytes = undefined
  send(KEPT_MESSAGES_MAX / 2)
  assert.equal(floods(), 0)
  send(KEPT_MESSAGES_MAX / 2 + 1)
  assert.equal(floods(), 1)
})

test('a guest that does not read many short answers is cut off', (t) => {
  const { send, answer, floods } = watched(t, Number.MAX_SAFE_INTEGER)
  answer(KEPT_MESSAGES_MAX / 2)
  send(1)
  assert.equal(floods(), 0)
  answer(KEPT_MESSAGES_MAX / 2)
  send(1)
  assert.equal(floods(), 1)
})
