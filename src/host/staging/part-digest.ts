import { MIB } from '../../lib/byte-units.ts'
import type { PackThread } from './pack-threads.ts'
import type { Digests } from './thread-tasks.ts'

/** The bytes that a thread digests per task. After each task it can be stopped. */
const STEP_BYTES = 8 * MIB

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
