import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NoAnswer } from '../files/bounded-calls.ts'
import { OpenIncoming } from './open-incoming.ts'
import type { GatedFile } from '../files/gated-file.ts'

/** An incoming file whose calls take at most `most` bytes, until they fail with `failure`. */
function stage({ most = 100 }: { readonly most?: number } = {}) {
  const content = Buffer.alloc(10)
  const file = {
    failure: undefined as Error | undefined,
    calls: 0,
    write: async (bytes: Uint8Array, offset: number, length: number, position: number) => {
      file.calls += 1
      if (file.failure !== undefined) throw file.failure
      const bytesWritten = Math.min(length, most)
      content.set(bytes.subarray(offset, offset + bytesWritten), position)
      return { bytesWritten }
    },
    punchHole: async () => false,
    sync: async () => void (file.calls += 1),
  }
  let unanswered = 0
  const incoming = new OpenIncoming({
    file: file as unknown as GatedFile,
    lengthBytes: content.length,
    about: 'the disk',
    onNoAnswer: () => void (unanswered += 1),
  })
  return { incoming, file, content, unanswered: () => unanswered }
}

const data = (text: string, offset: number) =>
  ({ kind: 'data', offset, length: text.length, bytes: Buffer.from(text) }) as const

test('a frame that the file takes in parts is written whole', async () => {
  const { incoming, content } = stage({ most: 2 })
  await incoming.write(data('abcde', 3))
  assert.equal(content.toString(), '\0\0\0abcde\0\0')
})

test('after a call that failed, a file is neither written to nor flushed', async () => {
  const { incoming, file, unanswered } = stage()
  file.failure = Object.assign(new Error('EIO'), { code: 'EIO', errno: -5 })
  await assert.rejects(incoming.write(data('a', 0)), { code: 'storage_failed' })
  file.failure = undefined
  const { calls } = file
  await assert.rejects(incoming.write(data('b', 1)), { code: 'storage_failed' })
  await assert.rejects(incoming.flush(), { code: 'storage_failed' })
  assert.equal(file.calls, calls)
  assert.equal(unanswered(), 0)
})

test('a call that had no answer is reported, because it may still take effect', async () => {
  const { incoming, file, unanswered } = stage()
  file.failure = new NoAnswer('no answer')
  await assert.rejects(incoming.write(data('a', 0)), { code: 'storage_failed' })
  assert.equal(unanswered(), 1)
})

test('a file system that makes no hole fails the write', async () => {
  const { incoming } = stage()
  await assert.rejects(incoming.write({ kind: 'hole', offset: 0, length: 4 }), { code: 'storage_failed' })
})
