/** The file of a saved guest as bytes, for fakes that move one: two pieces of data, and nothing between them. */
import { FRAME_HEAD_BYTES, FrameWriter } from '../../src/core/migration/frames.ts'
import { streamChecks } from '../../src/host/rounds/stream-checks.ts'
import type { SavedFile } from './saved-files.ts'

/** Pieces of a file by their offset. */
export type Pieces = ReadonlyMap<number, Uint8Array>

const PIECE_BYTES = 4096

export function piecesOf(file: SavedFile, lengthBytes: number): Pieces {
  const piece = new Uint8Array(PIECE_BYTES)
  piece.set(Buffer.from(JSON.stringify(file)))
  return new Map([
    [0, piece],
    [lengthBytes - PIECE_BYTES, piece],
  ])
}

/** Returns the file that has exactly these pieces; undefined if there is none. */
export function fileOf(pieces: Pieces, lengthBytes: number): SavedFile | undefined {
  const [first, last] = [pieces.get(0), pieces.get(lengthBytes - PIECE_BYTES)]
  if (pieces.size !== 2 || first === undefined || last === undefined || !Buffer.from(first).equals(last))
    return undefined
  return JSON.parse(Buffer.from(first).toString().replace(/\0+$/, '')) as SavedFile
}

/** Yields each piece as a frame, with its offset; at last the end. */
export function* framesOf(
  pieces: Pieces,
): Generator<{ readonly offset: number; readonly bytes: Uint8Array }> {
  const writer = new FrameWriter(streamChecks)
  for (const [offset, piece] of pieces) {
    const bytes = new Uint8Array(FRAME_HEAD_BYTES + piece.length)
    bytes.set(piece, FRAME_HEAD_BYTES)
    writer.finishData(offset, bytes)
    yield { offset, bytes }
  }
  yield { offset: Number.POSITIVE_INFINITY, bytes: writer.end() }
}
