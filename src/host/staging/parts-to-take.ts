import type { CutPart } from '../../core/snapshot/part-cut.ts'
import type { PackPoint } from '../../core/snapshot/record.ts'
import { abortable } from '../../lib/abortable.ts'
import type { PackJob } from '../../ports/staging.ts'
import type { Digests } from './thread-tasks.ts'

/** Parts that are whole: flushed, and given away one at a time in their order, while the next ones are packed. */
export class PartsToTake {
  readonly #onPart: PackJob['onPart']
  readonly #sync: () => Promise<void>
  readonly #failed = new AbortController()
  /** Aborts also when a part was not taken. */
  readonly signal: AbortSignal
  /** Where the parts end that are not taken yet, the oldest first. */
  readonly #ends: number[] = []
  #last: Promise<void> = Promise.resolve()
  #onTaken: () => void = () => {}

  constructor(onPart: PackJob['onPart'], sync: () => Promise<void>, signal: AbortSignal) {
    this.#onPart = onPart
    this.#sync = sync
    this.signal = AbortSignal.any([signal, this.#failed.signal])
  }

  /** What is written of the part and up to `next` need not be flushed. */
  add(part: CutPart, digests: Promise<Digests>, next: PackPoint): void {
    this.#ends.push(part.offsetBytes + part.bytes)
    this.#last = this.#take(this.#last, { part, digests, next })
  }

  /** Waits while more than this is packed behind the end of the oldest part that is not taken. */
  async untilRoom(storedBytes: number, aheadBytesMax: number): Promise<void> {
    while (storedBytes - (this.#ends[0] ?? storedBytes) > aheadBytesMax) {
      const taken = new Promise<void>((resolve) => {
        this.#onTaken = resolve
      })
      await abortable(taken, this.signal)
    }
  }

  /** Every part is taken. Throws what one of them failed of. */
  async end(): Promise<void> {
    await this.#last
    this.signal.throwIfAborted()
  }

  /** Nothing is flushed or given away any more. Call it last, after a failure too. */
  async settled(): Promise<void> {
    this.#failed.abort(NO_MORE)
    await this.#last
  }

  /** What all ended of: where a part was not taken, that, and not what failed in its wake. */
  reasonOf(error: unknown): unknown {
    return this.signal.aborted ? this.signal.reason : error
  }

  async #take(
    before: Promise<void>,
    { part, digests, next }: { part: CutPart; digests: Promise<Digests>; next: PackPoint },
  ): Promise<void> {
    // Waited for below, where it may fail before that.
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
