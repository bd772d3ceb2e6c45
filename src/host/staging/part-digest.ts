import type { PackThread } from './pack-threads.ts'
import type { Digests } from './thread-tasks.ts'

/** What a thread is told to digest at once; then it may hear that it shall end. */
const STEP_BYTES = 8 * 1024 * 1024

/** MD5 and SHA-256 of parts, one after another, made while the rest of a part is still written. */
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

  /** What is written up to here belongs to the part. */
  upTo(offset: number): void {
    while (this.#at < offset) {
      const bytes = Math.min(STEP_BYTES, offset - this.#at)
      const step = this.#thread.digest('part', { fd: this.#fd, from: this.#at, bytes })
      // Where it fails, the end of the part does.
      step.catch(() => {})
      this.#steps.push(step)
      this.#at += bytes
    }
  }

  /** The part ends here. */
  async end(offset: number): Promise<Digests> {
    this.upTo(offset)
    const steps = this.#steps
    this.#steps = []
    const [digests] = await Promise.all([this.#thread.endDigest('part'), ...steps])
    return digests
  }
}
