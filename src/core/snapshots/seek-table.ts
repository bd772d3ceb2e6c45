/**
 * The seek table of zstd's seekable format: a skippable frame after all others that lists how long each one is,
 * compressed and uncompressed. (facebook/zstd, contrib/seekable_format/zstd_seekable_compression_format.md, version
 * 0.1.0; RFC 8878, 3.1.2)
 */

const SKIPPABLE_MAGIC = 0x18_4d_2a_5e
const SEEKABLE_MAGIC = 0x8f_92_ea_b1
const HEAD_BYTES = 8
const FOOT_BYTES = 9

/** The sizes of one frame, as the table has them. */
export type FrameSizes = { readonly storedBytes: number; readonly imageBytes: number }

/** Size of one entry. */
export const FRAME_ENTRY_BYTES = 8

export function renderFrameEntry({ storedBytes, imageBytes }: FrameSizes): Uint8Array {
  const view = new DataView(new ArrayBuffer(FRAME_ENTRY_BYTES))
  view.setUint32(0, storedBytes, true)
  view.setUint32(4, imageBytes, true)
  return new Uint8Array(view.buffer)
}

/** Parses the entries in some bytes; an incomplete entry at the end is left out. */
export function* parseFrameEntries(bytes: Uint8Array): Generator<FrameSizes, void> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let at = 0; at + FRAME_ENTRY_BYTES <= bytes.length; at += FRAME_ENTRY_BYTES)
    yield { storedBytes: view.getUint32(at, true), imageBytes: view.getUint32(at + 4, true) }
}

/** Returns the size of the whole table. */
export const seekTableBytes = (frames: number): number => HEAD_BYTES + frames * FRAME_ENTRY_BYTES + FOOT_BYTES

/** Renders what comes before the entries. */
export function renderSeekTableHead(frames: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(HEAD_BYTES))
  view.setUint32(0, SKIPPABLE_MAGIC, true)
  view.setUint32(4, seekTableBytes(frames) - HEAD_BYTES, true)
  return new Uint8Array(view.buffer)
}

/**
 * Renders what comes after the entries. The descriptor between the two numbers is 0: entries have no checksums, their
 * frames do.
 */
export function renderSeekTableFoot(frames: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(FOOT_BYTES))
  view.setUint32(0, frames, true)
  view.setUint32(5, SEEKABLE_MAGIC, true)
  return new Uint8Array(view.buffer)
}
