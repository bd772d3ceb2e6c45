import { limits } from '../../config/limits.ts'
import { assert } from '../../lib/assert.ts'
import { CHECKED_FROM, DIGEST_BYTES, FRAME_HEAD_BYTES, KINDS } from './frames.ts'
import type { Checks, Frame, FrameKind, RunningDigest } from './frames.ts'

/** Thrown when a stream is not what a `FrameWriter` wrote. Nothing that was decoded of its round counts. */
export class BrokenStream extends Error {
  override readonly name = 'BrokenStream'
}

export type FrameDecoderOptions = {
  /** The size of the disk: no frame goes beyond it. */
  readonly sizeBytes: number
  readonly checks: Checks
}

type Head = {
  readonly kind: FrameKind
  readonly crc: number
  readonly offset: number
  readonly length: number
}

/**
 * Decodes the stream of one round, in chunks of any size. It keeps at most one frame, and yields a frame when it is
 * whole and its checksum is right. The frames count only when the round `isWhole`.
 */
export class FrameDecoder {
  readonly #sizeBytes: number
  readonly #checks: Checks
  readonly #digest: RunningDigest
  /** The frame that arrives, from its head on. */
  readonly #room: Uint8Array
  readonly #view: DataView
  #filled = 0
  #head: Head | undefined
  #frames = 0
  #end = 0
  #state: 'open' | 'whole' | 'broken' = 'open'

  constructor({ sizeBytes, checks }: FrameDecoderOptions) {
    this.#sizeBytes = sizeBytes
    this.#checks = checks
    this.#digest = checks.sha256()
    this.#room = new Uint8Array(FRAME_HEAD_BYTES + limits.roundFrameBytesMax)
    this.#view = new DataView(this.#room.buffer)
  }

  /** Whether the end of the round has arrived, and its digest is right. */
  get isWhole(): boolean {
    return this.#state === 'whole'
  }

  /**
   * Forgets a frame that arrived in part, because the stream was cut. Returns the offset at which the next stream of
   * the same round must begin.
   */
  cut(): number {
    this.#filled = 0
    this.#head = undefined
    return this.#end
  }

  /**
   * Takes the next bytes, and yields the frames that are complete with them; all must be taken. The bytes of a frame
   * are valid until the next one is requested. Throws BrokenStream.
   */
  *push(chunk: Uint8Array): Generator<Frame, void> {
    assert(this.#state !== 'broken', 'a stream that broke is not continued')
    try {
      for (let at = 0; at < chunk.length;) {
        if (this.#state === 'whole') throw new BrokenStream('there are bytes behind the end')
        at += this.#fill(chunk.subarray(at))
        const frame = this.#take()
        if (frame !== undefined) yield frame
      }
    } catch (error) {
      this.#state = 'broken'
      throw error
    }
  }

  /** Copies the bytes that the head, or the frame, still lacks. Returns their number. */
  #fill(chunk: Uint8Array): number {
    const part = chunk.subarray(0, this.#wanted() - this.#filled)
    this.#room.set(part, this.#filled)
    this.#filled += part.length
    return part.length
  }

  /** Returns the length of the frame if its head is known, otherwise that of the head. */
  #wanted(): number {
    if (this.#head === undefined) return FRAME_HEAD_BYTES
    return FRAME_HEAD_BYTES + (this.#head.kind === 'hole' ? 0 : this.#head.length)
  }

  #take(): Frame | undefined {
    if (this.#filled < FRAME_HEAD_BYTES) return undefined
    this.#head ??= this.#readHead()
    if (this.#filled < this.#wanted()) return undefined
    const { kind, crc, offset, length } = this.#head
    const whole = this.#room.subarray(0, this.#filled)
    if (this.#checks.crc32(whole.subarray(CHECKED_FROM)) !== crc)
      throw new BrokenStream(`the frame at ${offset} was damaged on the way`)
    this.#filled = 0
    this.#head = undefined
    if (kind === 'end') return this.#finish(offset, whole.subarray(FRAME_HEAD_BYTES))
    this.#digest.update(whole)
    this.#frames += 1
    this.#end = offset + length
    if (kind === 'hole') return { kind, offset, length }
    return { kind, offset, length, bytes: whole.subarray(FRAME_HEAD_BYTES) }
  }

  #readHead(): Head {
    const code = this.#view.getUint32(4, true)
    const kind = KIND_NAMES.find((name) => KINDS[name] === code)
    if (kind === undefined) throw new BrokenStream(`there are no frames of kind ${code}`)
    const [offset, length] = [this.#number(8), this.#number(16)]
    if (kind === 'end') {
      if (length !== DIGEST_BYTES) throw new BrokenStream(`the end has ${length} bytes`)
    } else {
      if (offset < this.#end)
        throw new BrokenStream(`a frame begins at ${offset}, and the last one ends at ${this.#end}`)
      if (offset + length > this.#sizeBytes)
        throw new BrokenStream(`the frame at ${offset} goes beyond the end, ${this.#sizeBytes}`)
      const longest = kind === 'hole' ? this.#sizeBytes : limits.roundFrameBytesMax
      if (length === 0 || length > longest)
        throw new BrokenStream(`the frame at ${offset} has ${length} bytes`)
    }
    return { kind, crc: this.#view.getUint32(0, true), offset, length }
  }

  /** Returns a number of 64 bits; one that is too large to be exact is too large for any disk. */
  #number(at: number): number {
    return Number(this.#view.getBigUint64(at, true))
  }

  #finish(frames: number, digest: Uint8Array): undefined {
    if (frames !== this.#frames) throw new BrokenStream(`${this.#frames} of ${frames} frames arrived`)
    const own = this.#digest.digest()
    if (!own.every((byte, index) => byte === digest[index]))
      throw new BrokenStream('the frames do not have the digest at their end')
    this.#state = 'whole'
  }
}

const KIND_NAMES = Object.keys(KINDS) as FrameKind[]
