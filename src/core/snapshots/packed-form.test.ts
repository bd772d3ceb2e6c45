import assert from 'node:assert/strict'
import { test } from 'node:test'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import {
  PartCut,
  parseFrameEntries,
  renderFrameEntry,
  renderSeekTableFoot,
  renderSeekTableHead,
  seekTableBytes,
} from './packed-form.ts'

test('a part is whole with the frame that reaches its end, and has the image bytes of frames that end in it', () => {
  const cut = new PartCut(10)
  assert.deepEqual(cut.add(6, 100), [])
  assert.equal(cut.partEndBytes, 10)
  assert.deepEqual(cut.add(6, 100), [{ number: 1, offsetBytes: 0, bytes: 10, imageBytes: 100 }])
  assert.equal(cut.partEndBytes, 20)
  // The second frame ends in part 2, and so does the third, with its last byte.
  assert.deepEqual(cut.add(8, 50), [{ number: 2, offsetBytes: 10, bytes: 10, imageBytes: 150 }])
  assert.deepEqual(cut.point, { storedBytes: 20, imageBytes: 250 })
})

test('a frame may make several parts whole, of which all but the last have no image bytes of it', () => {
  const cut = new PartCut(10)
  cut.add(5, 7)
  assert.deepEqual(
    cut.add(30, 100).map(({ number, imageBytes }) => [number, imageBytes]),
    [
      [1, 7],
      [2, 0],
      [3, 0],
    ],
  )
  assert.deepEqual(cut.end(), { number: 4, offsetBytes: 30, bytes: 5, imageBytes: 100 })
})

test('the last part is what is left, and there is none if the part before it ends with all', () => {
  const cut = new PartCut(10)
  cut.add(10, 100)
  assert.equal(cut.end(), undefined)
  cut.add(1, 0)
  assert.deepEqual(cut.end(), { number: 2, offsetBytes: 10, bytes: 1, imageBytes: 0 })
})

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
