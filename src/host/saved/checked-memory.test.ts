import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import type { VmId } from '../../core/ids.ts'
import { CheckedMemory } from './checked-memory.ts'

const id = 'web-1' as VmId
const file = { ino: 7n, ctimeNs: 1_700_000_000_123_456_789n }

test('a file that was read is not read again while it is the same and unchanged', () => {
  const checked = new CheckedMemory(() => 0)
  assert.equal(checked.crc32Of(id, file), undefined)
  checked.note(id, file, 0x1234)
  assert.equal(checked.crc32Of(id, file), 0x1234)
  assert.equal(checked.crc32Of('web-2' as VmId, file), undefined)
  assert.equal(checked.crc32Of(id, { ...file, ino: 8n }), undefined, 'another file')
  assert.equal(checked.crc32Of(id, { ...file, ctimeNs: file.ctimeNs + 1n }), undefined, 'changed since')
  checked.forget(id)
  assert.equal(checked.crc32Of(id, file), undefined)
})

test('a checksum continues only for the same file, and only for a limited time', () => {
  let nowMs = 5
  const checked = new CheckedMemory(() => nowMs)
  checked.progressOf(id, file).bytes = 17
  assert.equal(checked.progressOf(id, file).bytes, 17)
  nowMs += limits.checksumProgressMs
  assert.equal(checked.progressOf(id, file).bytes, 0)
  checked.progressOf(id, file).bytes = 17
  assert.equal(checked.progressOf('web-2' as VmId, file).bytes, 0, 'of another VM')
  assert.equal(checked.progressOf(id, file).bytes, 17)
  assert.equal(checked.progressOf(id, { ...file, ino: 8n }).bytes, 0, 'another file')
  checked.progressOf(id, file).bytes = 17
  assert.equal(checked.progressOf(id, { ...file, ctimeNs: file.ctimeNs + 1n }).bytes, 0, 'changed since')
  checked.progressOf(id, file).bytes = 17
  checked.forget(id)
  assert.equal(checked.progressOf(id, file).bytes, 0)
})

test('a file that was read long ago is read again', () => {
  let nowMs = 5
  const checked = new CheckedMemory(() => nowMs)
  checked.note(id, file, 0x1234)
  nowMs += limits.savedUncheckedMs - 1
  assert.equal(checked.crc32Of(id, file), 0x1234)
  nowMs += 1
  assert.equal(checked.crc32Of(id, file), undefined)
})
