import assert from 'node:assert/strict'
import { test } from 'node:test'
import { markOfTests } from '../../../test/record.ts'
import { parseDiskNote, renderDiskNote } from './disk-note.ts'
import type { Sha256 } from '../ids.ts'

const rootfsSha256 = 'a'.repeat(64) as Sha256
const unmarked = { mark: { storeId: undefined, createdAtMs: undefined }, rootfsSha256: undefined }

test('a note that is written beside a disk is read again', () => {
  for (const note of [
    { mark: markOfTests, rootfsSha256 },
    { mark: markOfTests, rootfsSha256, rebuild: 3 },
  ])
    assert.deepEqual(parseDiskNote(renderDiskNote(note)), note)
  assert.deepEqual(parseDiskNote(renderDiskNote({ mark: markOfTests })), {
    mark: markOfTests,
    rootfsSha256: undefined,
  })
})

test('a note of another format, or one that is not whole, names no owner', () => {
  const written = JSON.parse(renderDiskNote({ mark: markOfTests, rootfsSha256 })) as object
  for (const changed of [{ format: 2 }, { store_id: 7 }, { created_at_ms: 1.5 }, { rebuild: '1' }])
    assert.deepEqual(parseDiskNote(JSON.stringify({ ...written, ...changed })), unmarked)
  for (const text of ['', 'null', '[]', renderDiskNote({ mark: markOfTests }).slice(0, 20)])
    assert.deepEqual(parseDiskNote(text), unmarked)
})
