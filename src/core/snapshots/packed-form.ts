/**
 * The form of a packed image: zstd frames, cut into parts, and the seek table after the last frame.
 *
 * The table is that of zstd's seekable format: a skippable frame that lists how long each frame is, compressed and
 * uncompressed (facebook/zstd, contrib/seekable_format/zstd_seekable_compression_format.md, version 0.1.0; RFC 8878,
 * 3.1.2).
 */
import { assert } from '../../lib/assert.ts'
import type { PackedPart, PackPoint } from './record.ts'

/** A part without its digests. */
export type CutPart = Omit<PackedPart, 'md5' | 'sha256'>

/** Cuts the stored form, frame after frame, into parts of one size. */
export class PartCut {
  readonly #partBytes: number
  #parts = 0
  /** Image bytes of the frames that end in the part that is not complete yet. */
  #partImageBytes = 0
  #storedBytes = 0
  #imageBytes = 0

  constructor(partBytes: number) {
    assert(partBytes > 0, 'parts have bytes')
    this.#partBytes = partBytes
  }

  /** Returns the point after the last frame that was added. */
  get point(): PackPoint {
    return { imageBytes: this.#imageBytes, storedBytes: this.#storedBytes }
  }

  /** Returns the end of the part that is not complete yet. */
  get partEndBytes(): number {
    return (this.#parts + 1) * this.#partBytes
  }

  /** Adds a frame, or the table after the last frame, with no image bytes. Returns the parts that it completes. */
  add(storedBytes: number, imageBytes: number): readonly CutPart[] {
    const whole: CutPart[] = []
    this.#storedBytes += storedBytes
    this.#imageBytes += imageBytes
    while (this.#storedBytes > this.partEndBytes) whole.push(this.#cut(this.#partBytes))
    this.#partImageBytes += imageBytes
    if (this.#storedBytes === this.partEndBytes) whole.push(this.#cut(this.#partBytes))
    return whole
  }

  /** Returns the last part; undefined if the part before it ends with all. */
  end(): CutPart | undefined {
    const rest = this.#storedBytes - this.#parts * this.#partBytes
    return rest === 0 ? undefined : this.#cut(rest)
  }

  #cut(bytes: number): CutPart {
    const part = {
      number: this.#parts + 1,
      offsetBytes: this.#parts * this.#partBytes,
      bytes,
      imageBytes: this.#partImageBytes,
    }
    this.#parts += 1
    this.#partImageBytes = 0
    return part
  }
}

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
