import type { CutPart } from '../../core/snapshots/packed-form.ts'
import type { PackPoint } from '../../core/snapshots/record.ts'
import { abortable } from '../../lib/abortable.ts'
import type { PackJob } from '../../ports/staging.ts'
import type { Digests } from './thread-tasks.ts'

/** Syncs complete parts and hands them over, one at a time and in order, while the next ones are packed. */
export class PartsToTake {
  readonly #onPart: PackJob['onPart']
  readonly #sync: () => Promise<void>
  readonly #failed = new AbortController()
  /** Aborts with the caller's signal, and when a part could not be handed over. */
  readonly signal: AbortSignal
  /** The ends of the parts that were not taken yet, the oldest first. */
  readonly #ends: number[] = []
  #last: Promise<void> = Promise.resolve()
  #onTaken: () => void = () => {}

  constructor(onPart: PackJob['onPart'], sync: () => Promise<void>, signal: AbortSignal) {
    this.#onPart = onPart
    this.#sync = sync
    this.signal = AbortSignal.any([signal, this.#failed.signal])
  }

  /** Adds a part. What is written of it, and up to `next`, need not be synced yet. */
  add(part: CutPart, digests: Promise<Digests>, next: PackPoint): void {
    this.#ends.push(part.offsetBytes + part.bytes)
    this.#last = this.#take(this.#last, { part, digests, next })
  }

  /** Waits while more than `aheadBytesMax` is packed after the end of the oldest part that was not taken. */
  async untilRoom(storedBytes: number, aheadBytesMax: number): Promise<void> {
    while (storedBytes - (this.#ends[0] ?? storedBytes) > aheadBytesMax) {
      const taken = new Promise<void>((resolve) => {
        this.#onTaken = resolve
      })
      await abortable(taken, this.signal)
    }
  }

  /** Waits until every part is taken. Throws the failure of a part. */
  async end(): Promise<void> {
    await this.#last
    this.signal.throwIfAborted()
  }

  /** Ends syncing and handing over, and waits for what is under way. Must be called last, even after a failure. */
  async settled(): Promise<void> {
    this.#failed.abort(NO_MORE)
    await this.#last
  }

  /**
   * Returns the root cause of an error: if a part could not be handed over, that failure, and not one that follows from
   * it.
   */
  reasonOf(error: unknown): unknown {
    return this.signal.aborted ? this.signal.reason : error
  }

  async #take(
    before: Promise<void>,
    { part, digests, next }: { part: CutPart; digests: Promise<Digests>; next: PackPoint },
  ): Promise<void> {
    // It may fail before it is awaited below.
    digests.catch(() => {})
    try {
      await before
      this.signal.throwIfAborted()
      await this.#sync()
      const { md5, sha256 } = await abortable(digests, this.signal)
      await abortable(this.#onPart({ ...part, md5, sha256 }, next), this.signal)
      this.#ends.shift()
      this.#onTaken()
    } catch (error) {
      this.#failed.abort(error)
    }
  }
}

const NO_MORE = new Error('packing has ended')
