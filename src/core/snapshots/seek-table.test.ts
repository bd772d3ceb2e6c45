import assert from 'node:assert/strict'
import { test } from 'node:test'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import {
  parseFrameEntries,
  renderFrameEntry,
  renderSeekTableFoot,
  renderSeekTableHead,
  seekTableBytes,
} from './seek-table.ts'

const words = (bytes: Uint8Array): string =>
  Buffer.from(bytes)
    .toString('hex')
    .replace(/.{8}(?=.)/g, '$& ')

test('a table is rendered as the format says', () => {
  // Skippable_Magic_Number, Frame_Size; entries; Number_Of_Frames, Seek_Table_Descriptor, Seekable_Magic_Number.
  assert.equal(words(renderSeekTableHead(2)), '5e2a4d18 19000000')
  assert.equal(words(renderFrameEntry({ storedBytes: 258, imageBytes: 0x400000 })), '02010000 00004000')
  assert.equal(words(renderSeekTableFoot(2)), '02000000 00b1ea92 8f')
  assert.equal(seekTableBytes(2), 8 + 16 + 9)
})

test('entries are parsed as they were rendered, and half an entry is left out', () => {
  const entries = [
    { storedBytes: 1, imageBytes: 4_294_967_295 },
    { storedBytes: 4_294_967_295, imageBytes: 2 },
  ]
  const bytes = Buffer.concat(entries.map(renderFrameEntry))
  assert.deepEqual([...parseFrameEntries(bytes)], entries)
  assert.deepEqual([...parseFrameEntries(bytes.subarray(0, 15))], entries.slice(0, 1))
})

test('zstd skips the table', () => {
  const table = [
    renderSeekTableHead(1),
    renderFrameEntry({ storedBytes: 9, imageBytes: 9 }),
    renderSeekTableFoot(1),
  ]
  const stored = Buffer.concat([zstdCompressSync('image'), ...table])
  assert.equal(zstdDecompressSync(stored).toString(), 'image')
})
