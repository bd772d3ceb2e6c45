import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { truncateSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import { checksumOf, FileCutShort, crc32AfterZeros } from './checksum.ts'
import { open } from './pool-files.ts'
import type { TestContext } from 'node:test'

const MIB = 1024 * 1024
const never = new AbortController().signal

async function fileOf(t: TestContext, bytes: Uint8Array) {
  const directory = await mkdtemp(join(tmpdir(), 'vmh-'))
  const path = join(directory, 'memory')
  const handle = await open(path, 'w+')
  await handle.write(bytes, 0, bytes.length, 0)
  t.after(async () => {
    await handle.close()
    await rm(directory, { recursive: true })
  })
  return { path, handle }
}

test('the checksum of a file covers all its bytes, including its holes', async (t) => {
  const data = randomBytes(2 * MIB + 17)
  const { handle } = await fileOf(t, data)
  await handle.truncate(5 * MIB)
  const whole = Buffer.concat([data, Buffer.alloc(5 * MIB - data.length)])
  assert.equal(await checksumOf(handle, whole.length, never), crc32(whole))
})

test('a large hole is not read', async (t) => {
  const { handle } = await fileOf(t, randomBytes(MIB))
  await handle.truncate(2 ** 32)
  const read = t.mock.method(handle, 'read')
  await checksumOf(handle, 2 ** 32, never)
  const count = read.mock.callCount()
  assert.ok(count > 0 && count < 8, `${count} reads`)
})

test('reads that return less than was asked for are continued', async (t) => {
  const data = randomBytes(MIB)
  const { handle } = await fileOf(t, data)
  const read = handle.read.bind(handle)
  t.mock.method(handle, 'read', (buffer: Buffer, offset: number, length: number, position: number) =>
    read(buffer, offset, Math.ceil(length / 2), position),
  )
  assert.equal(await checksumOf(handle, data.length, never), crc32(data))
})

test('a checksum that was aborted continues where it stopped', async (t) => {
  const data = randomBytes(8 * MIB)
  const { handle } = await fileOf(t, data)
  const controller = new AbortController()
  const progress = { bytes: 0, crc32: 0 }
  const reading = checksumOf(handle, data.length, controller.signal, progress)
  while (progress.bytes < 2 * MIB) await new Promise(setImmediate)
  controller.abort(new Error('the step took too long'))
  await assert.rejects(reading, /took too long/)
  const stood = progress.bytes
  assert.ok(stood >= 2 * MIB && stood < data.length)
  // If the first bytes were read again, this change would make the checksum differ.
  await handle.write(Buffer.alloc(MIB), 0, MIB, 0)
  assert.equal(await checksumOf(handle, data.length, never, progress), crc32(data))
  assert.equal(await checksumOf(handle, data.length, never, progress), crc32(data), 'all of it is known')
})

test('a file that is cut short while it is read fails as cut short', async (t) => {
  const { path, handle } = await fileOf(t, randomBytes(8 * MIB))
  const reading = checksumOf(handle, 8 * MIB, never)
  truncateSync(path, 0)
  await assert.rejects(reading, FileCutShort)
})

test('a read that fails before its turn fails the checksum, and nothing else', async (t) => {
  const { handle } = await fileOf(t, randomBytes(4 * MIB))
  const first = Promise.withResolvers<void>()
  const failed = new Error('EIO')
  const read = t.mock.method(handle, 'read')
  read.mock.mockImplementationOnce(() => first.promise.then(() => ({ bytesRead: MIB })), 0)
  read.mock.mockImplementationOnce(() => Promise.reject(failed), 1)
  const reading = assert.rejects(checksumOf(handle, 4 * MIB, never), failed)
  while (read.mock.callCount() < 4) await new Promise(setImmediate)
  first.resolve()
  await reading
})

test('a checksum that fails has no read under way any more', async (t) => {
  const { handle } = await fileOf(t, randomBytes(4 * MIB))
  const second = Promise.withResolvers<void>()
  const read = t.mock.method(handle, 'read')
  read.mock.mockImplementationOnce(() => Promise.reject(new Error('EIO')), 0)
  read.mock.mockImplementationOnce(() => second.promise.then(() => ({ bytesRead: MIB })), 1)
  let hasEnded = false
  const reading = assert.rejects(checksumOf(handle, 4 * MIB, never)).then(() => (hasEnded = true))
  while (read.mock.callCount() < 4) await new Promise(setImmediate)
  await new Promise(setImmediate)
  assert.equal(hasEnded, false)
  second.resolve()
  await reading
})

test('zeros after data count as if they had been read', () => {
  for (const data of ['', '\0', 'a guest', 'x'.repeat(1000)]) {
    for (const count of [0, 1, 2, 3, 7, 8, 255, 4096, 65_537, 1_000_000]) {
      const whole = Buffer.concat([Buffer.from(data), Buffer.alloc(count)])
      assert.equal(crc32AfterZeros(crc32(data), count), crc32(whole), `${data.length} bytes, ${count} zeros`)
    }
  }
})

test('zeros may be counted in parts, also past 2^32', () => {
  const crc = crc32('a guest')
  const parts = crc32AfterZeros(crc32AfterZeros(crc, 2 ** 40), 3)
  assert.equal(parts, crc32AfterZeros(crc, 2 ** 40 + 3))
})
