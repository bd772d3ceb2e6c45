import { framesOf } from './image-frames.ts'
import { MIB } from '../../lib/byte-units.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { GatedFile } from '../files/gated-file.ts'
import type { PackThread } from './pack-threads.ts'
import type { Digests } from './thread-tasks.ts'

/** The bytes that a thread digests per task. After each task it can be stopped. */
const STEP_BYTES = 8 * MIB
/** How many tasks are queued for the thread, so that it need not wait for the next. */
const STEPS_AHEAD = 2

/**
 * Computes the SHA-256 of an image from its first byte, as far as `upTo` allows. Holes count as the zeros that they
 * read as.
 */
export class ImageDigest {
  readonly #thread: PackThread
  readonly #file: GatedFile
  readonly #imageBytes: number
  readonly #steps: Promise<void>[] = []
  #target = 0
  #onTarget: () => void = () => {}
  readonly #digesting: Promise<Sha256>
  #isOver = false

  constructor(options: {
    readonly thread: PackThread
    readonly file: GatedFile
    readonly imageBytes: number
  }) {
    this.#thread = options.thread
    this.#file = options.file
    this.#imageBytes = options.imageBytes
    this.#digesting = this.#run()
    // `digest` reports the failure; the other calls fail for the same reason.
    this.#digesting.catch(() => {})
  }

  /**
   * Lets it continue to this offset. That is never further than the image is packed, so one reading of the disk serves
   * both.
   */
  upTo(offset: number): void {
    this.#target = Math.max(this.#target, offset)
    this.#onTarget()
  }

  /** Returns the digest of the whole image. */
  digest(): Promise<Sha256> {
    this.upTo(this.#imageBytes)
    return this.#digesting
  }

  /** Stops the digest. When this resolves, the file is no longer used. */
  async end(): Promise<void> {
    this.#isOver = true
    this.#onTarget()
    await this.#digesting.catch(() => {})
  }

  async #run(): Promise<Sha256> {
    const range = { from: 0, to: this.#imageBytes, frameBytes: STEP_BYTES }
    for await (const { from, bytes, hole } of framesOf(this.#file, range)) {
      while (this.#target < from + bytes && !this.#isOver) await this.#nextTarget()
      if (this.#steps.length > STEPS_AHEAD) await this.#steps.shift()
      if (this.#isOver) break
      const step = hole
        ? this.#thread.digestZeros('image', bytes)
        : this.#thread.digest('image', { fd: this.#file.fd, from, bytes })
      step.catch(() => {})
      this.#steps.push(step)
    }
    await Promise.all(this.#steps)
    this.#steps.length = 0
    const { sha256 } = await this.#thread.endDigest('image')
    return sha256 as Sha256
  }

  #nextTarget(): Promise<void> {
    return new Promise((resolve) => {
      this.#onTarget = resolve
    })
  }
}

/** Computes MD5 and SHA-256 of one part after another, while the rest of a part is still written. */
export class PartDigest {
  readonly #thread: PackThread
  readonly #fd: number
  #at: number
  #steps: Promise<void>[] = []

  constructor(options: { readonly thread: PackThread; readonly fd: number; readonly from: number }) {
    this.#thread = options.thread
    this.#fd = options.fd
    this.#at = options.from
  }

  /** Digests the part up to this offset, which must be written. */
  upTo(offset: number): void {
    while (this.#at < offset) {
      const bytes = Math.min(STEP_BYTES, offset - this.#at)
      const step = this.#thread.digest('part', { fd: this.#fd, from: this.#at, bytes })
      // If it fails, `end` fails too.
      step.catch(() => {})
      this.#steps.push(step)
      this.#at += bytes
    }
  }

  /** Ends the part at this offset, and returns its digests. */
  async end(offset: number): Promise<Digests> {
    this.upTo(offset)
    const steps = this.#steps
    this.#steps = []
    const [digests] = await Promise.all([this.#thread.endDigest('part'), ...steps])
    return digests
  }
}
