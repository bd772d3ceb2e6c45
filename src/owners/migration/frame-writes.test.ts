import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FrameWrites } from './frame-writes.ts'
import type { Frame } from '../../core/migration/frames.ts'

const frame = (bytes: Uint8Array, offset = 0): Frame => ({
  kind: 'data',
  offset,
  length: bytes.length,
  bytes,
})

test('one frame is written while the next arrives, each with its own bytes and in order', async () => {
  const calls: { readonly bytes: string; readonly done: () => void }[] = []
  const writes = new FrameWrites({
    write: async (written) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      calls.push({
        bytes: written.kind === 'data' ? Buffer.from(written.bytes).toString() : '',
        done: resolve,
      })
      await promise
    },
  })
  const room = Buffer.from('first.')
  await writes.add(frame(room))
  room.write('second')
  const second = writes.add(frame(room, 6))
  await Promise.resolve()
  assert.deepEqual(
    calls.map(({ bytes }) => bytes),
    ['first.'],
  )
  calls[0]?.done()
  await second
  assert.deepEqual(
    calls.map(({ bytes }) => bytes),
    ['first.', 'second'],
  )
  calls[1]?.done()
  await writes.end()
})

test('a fault of a write is thrown by the next one, and by the end', async () => {
  const fault = new Error('the pool is full')
  const writes = new FrameWrites({ write: () => Promise.reject(fault) })
  await writes.add(frame(Buffer.from('a')))
  await assert.rejects(writes.add(frame(Buffer.from('b'))), fault)
  await assert.rejects(writes.end(), fault)
  await writes.settled()
})
