/**
 * The stream of a round of a disk, or of a guest's memory: frames in ascending order, each with its place and a
 * checksum, and an end with a digest of all of them. Numbers are little-endian.
 *
 *     0   CRC-32 of the rest of the frame (as in gzip: RFC 1952, section 8)
 *     4   1: data; 2: a hole; 3: the end
 *     8   offset in bytes; at the end, the number of frames before it
 *     16  length in bytes
 *     24  of data, the bytes; at the end, the SHA-256 of all frames before it, whole and in order
 *
 * Frames of data are cut at multiples of `limits.roundFrameBytesMax`, holes are not cut, and neighbours are joined. So
 * a stream that was cut continues at the end of any frame, and the end is the same as without the cut.
 */
import type { Extent } from './extents.ts'

export const FRAME_HEAD_BYTES = 24
export const DIGEST_BYTES = 32
/** The place in a frame after its checksum, from which on it is checked. */
export const CHECKED_FROM = 4

export const KINDS = { data: 1, hole: 2, end: 3 } as const
export type FrameKind = keyof typeof KINDS

/** A piece of a disk with its content: bytes, or a hole that reads as zeros. */
export type Frame =
  | (Extent & { readonly kind: 'data'; readonly bytes: Uint8Array })
  | (Extent & { readonly kind: 'hole' })

/** Checksums that the platform computes. */
export type Checks = {
  /** Returns the CRC-32 of some bytes. */
  readonly crc32: (bytes: Uint8Array) => number
  readonly sha256: () => RunningDigest
}

export type RunningDigest = {
  update(bytes: Uint8Array): unknown
  /** Returns another one that continues from here. */
  copy(): RunningDigest
  digest(): Uint8Array
}

/** Renders the frames of one round in their order, and its end. */
export class FrameWriter {
  readonly #checks: Checks
  readonly #digest: RunningDigest
  #frames: number

  constructor(checks: Checks, digest = checks.sha256(), frames = 0) {
    this.#checks = checks
    this.#digest = digest
    this.#frames = frames
  }

  /** Returns another writer that continues from here. */
  copy(): FrameWriter {
    return new FrameWriter(this.#checks, this.#digest.copy(), this.#frames)
  }

  /** Completes a frame of data, whose bytes are already in it, behind the room for its head. */
  finishData(offset: number, frame: Uint8Array): void {
    this.#finish('data', { offset, length: frame.length - FRAME_HEAD_BYTES }, frame)
  }

  hole({ offset, length }: Pick<Extent, 'offset' | 'length'>): Uint8Array {
    const frame = new Uint8Array(FRAME_HEAD_BYTES)
    this.#finish('hole', { offset, length }, frame)
    return frame
  }

  /** Returns the end of the round. The writer is not used afterwards. */
  end(): Uint8Array {
    const frame = new Uint8Array(FRAME_HEAD_BYTES + DIGEST_BYTES)
    frame.set(this.#digest.digest(), FRAME_HEAD_BYTES)
    renderHead(this.#checks, frame, { kind: 'end', offset: this.#frames, length: DIGEST_BYTES })
    return frame
  }

  #finish(kind: Extent['kind'], place: Pick<Extent, 'offset' | 'length'>, frame: Uint8Array): void {
    renderHead(this.#checks, frame, { kind, ...place })
    this.#digest.update(frame)
    this.#frames += 1
  }
}

type Head = { readonly kind: FrameKind; readonly offset: number; readonly length: number }

function renderHead({ crc32 }: Checks, frame: Uint8Array, { kind, offset, length }: Head): void {
  const view = new DataView(frame.buffer, frame.byteOffset, FRAME_HEAD_BYTES)
  view.setUint32(4, KINDS[kind], true)
  view.setBigUint64(8, BigInt(offset), true)
  view.setBigUint64(16, BigInt(length), true)
  view.setUint32(0, crc32(frame.subarray(CHECKED_FROM)), true)
}
