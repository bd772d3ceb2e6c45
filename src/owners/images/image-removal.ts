import { HostFault } from '../../core/errors.ts'
import { retryDelayMs } from '../../core/retry/retry.ts'
import { given } from '../../lib/given.ts'
import { errorChain } from '../../log/error-chain.ts'
import type { Log } from '../../log/log.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Storage } from '../../ports/storage.ts'
import type { StoredRemoval } from '../../store/images/image-table.ts'
import type { Store } from '../../store/store.ts'

export type ImageRemovalOptions = {
  readonly storage: Pick<Storage, 'images' | 'removeImage'>
  readonly store: Pick<Store, 'images'>
  readonly clock: Clock
  readonly log: Log
}

/**
 * Removes the images that are on record for removal, one after another, and checks that they are gone. If the pool
 * keeps an image, the removal is tried again with back-off, also by the next daemon.
 */
export class ImageRemoval {
  readonly #options: ImageRemovalOptions
  #running: Promise<void> | undefined
  #isPending = false
  #attempt = 0
  #stopped = false
  #cancelTimer = (): void => {}

  constructor(options: ImageRemovalOptions) {
    this.#options = options
  }

  /** Starts a removal, because there may be something to remove. */
  poke(): void {
    if (this.#stopped) return
    this.#isPending = true
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
      if (this.#isPending) this.poke()
    })
  }

  /** Resolves when no removal is running any more. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelTimer()
    await this.#running
  }

  async #run(): Promise<void> {
    const { clock } = this.#options
    this.#cancelTimer()
    while (this.#isPending && !this.#stopped) {
      this.#isPending = false
      if (await this.#removeAll()) this.#attempt = 0
      else {
        this.#attempt += 1
        const delayMs = retryDelayMs('backoff', this.#attempt, clock.random())
        this.#cancelTimer = clock.after(delayMs, () => this.poke())
      }
    }
    this.#isPending &&= !this.#stopped
  }

  /** Returns whether nothing is left to do. */
  async #removeAll(): Promise<boolean> {
    const { store } = this.#options
    let failures: readonly Failure[] = []
    try {
      const wanted = store.images.removals()
      if (wanted.length === 0) return true
      failures = await this.#removeEach(wanted)
      await this.#forgetGone(wanted)
      if (failures.length === 0) return store.images.removals().length === 0
      this.#logPostponed(failures)
    } catch (error) {
      this.#logPostponed(failures, error)
    }
    return false
  }

  /** Returns the removals that fail: an image that cannot be removed must not keep the others. */
  async #removeEach(wanted: readonly StoredRemoval[]): Promise<readonly Failure[]> {
    const { storage, store } = this.#options
    const failures: Failure[] = []
    for (const removal of wanted) {
      if (this.#stopped) break
      try {
        // The store is asked each time, because a VM that was stored meanwhile withdraws the removal.
        const isWanted = (): boolean => store.images.hasRemoval(removal.sha256)
        await storage.removeImage(removal.sha256, isWanted)
      } catch (error) {
        failures.push({ removal, error })
      }
    }
    return failures
  }

  /** Ends the removals whose images are no longer in the pool. */
  async #forgetGone(wanted: readonly StoredRemoval[]): Promise<void> {
    const { storage, store, log } = this.#options
    const left = new Set((await storage.images()).map(({ sha256 }) => sha256))
    const gone = wanted.filter(({ sha256 }) => !left.has(sha256))
    store.images.forgetRemoved(gone.map(({ sha256 }) => sha256))
    for (const removal of gone) log.info(wordsOf(removal), 'image removed')
  }

  /** Writes one line, because all fail for one reason if the pool is away. */
  #logPostponed([first, ...others]: readonly Failure[], thrown?: unknown): void {
    const { log } = this.#options
    const error = first?.error ?? thrown
    const words = first === undefined ? {} : { ...wordsOf(first.removal), others: others.length }
    if (error instanceof HostFault)
      log.warn({ ...words, code: error.code, error: errorChain(error) }, 'image removal postponed')
    else log.error({ ...words, error }, 'image removal failed: internal error')
  }
}

type Failure = { readonly removal: StoredRemoval; readonly error: unknown }

const wordsOf = ({ sha256, operationId }: StoredRemoval): object => ({
  ...given({ operation_id: operationId }),
  sha256,
})
