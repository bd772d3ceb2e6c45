import assert from 'node:assert/strict'
import { closeSync, openSync, readSync } from 'node:fs'
import { test } from 'node:test'
import { until } from '../../../test/contract/until.ts'
import { limits } from '../../config/limits.ts'
import { silentLog } from '../../log/log.ts'
import { openPipe, setNonBlocking } from '../ffi/descriptor.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { ConsoleInput } from './console-input.ts'
import type { TestContext } from 'node:test'
import type { Log } from '../../log/log.ts'

/** Makes input into a pipe, which takes bytes as a terminal does: only some of them when it is nearly full. */
function stage(t: TestContext) {
  const { readEnd, writeEnd } = openPipe()
  setNonBlocking(readEnd)
  setNonBlocking(writeEnd)
  const input = new ConsoleInput(writeEnd, silentLog)
  t.after(() => {
    input.close()
    closeSync(readEnd)
    closeSync(writeEnd)
  })
  const taken: Buffer[] = []
  const read = (): number => {
    const piece = Buffer.alloc(64 * 1024)
    try {
      for (let length; (length = readSync(readEnd, piece)) > 0;)
        taken.push(Buffer.from(piece.subarray(0, length)))
    } catch (error) {
      if (!hasErrno(error, 'EAGAIN')) throw error
    }
    return Buffer.concat(taken).length
  }
  return { input, read, taken: () => Buffer.concat(taken) }
}

const numbered = (length: number, from = 0): Buffer =>
  Buffer.from(Array.from({ length }, (_, index) => (from + index) % 251))

test('input that the terminal can take is written at once', (t) => {
  const { input, read } = stage(t)
  input.write(numbered(1000))
  assert.equal(input.waiting, 0)
  assert.equal(read(), 1000)
})

test('input that the terminal does not take waits, and all of it arrives in order', async (t) => {
  const { input, read, taken } = stage(t)
  let sent = 0
  for (let piece = 1; piece < 700; piece++) {
    input.write(numbered(piece, sent))
    sent += piece
    // There is room again, but older input still waits.
    if (piece === 600) read()
  }
  assert.ok(input.waiting > 0)
  await until(read, (length) => length === sent)
  assert.deepEqual(taken(), numbered(sent))
  assert.equal(input.waiting, 0)
})

test('a listener is called once when there is room again', async (t) => {
  const { input, read } = stage(t)
  let rooms = 0
  const stop = input.onRoom(() => (rooms += 1))
  input.write(Buffer.alloc(limits.consoleInputBytesMax + 128 * 1024))
  assert.ok(input.waiting > limits.consoleInputBytesMax)
  await until(
    () => (read(), rooms),
    (count) => count === 1,
  )
  assert.ok(input.waiting <= limits.consoleInputBytesMax)
  stop()
  await until(
    () => (read(), input.waiting),
    (waiting) => waiting === 0,
  )
  assert.equal(rooms, 1)
})

test('an input that can no longer write reports it once, and keeps nothing', async (t) => {
  const lines: string[] = []
  const log: Log = { ...silentLog, error: (_fields, message) => void lines.push(message) }
  const fd = openSync('/dev/full', 'w')
  t.after(() => closeSync(fd))
  const input = new ConsoleInput(fd, log)
  input.write(Buffer.from('a'))
  input.write(Buffer.from('b'))
  assert.equal(input.waiting, 0)
  assert.deepEqual(lines, ['console input ended'])
})
