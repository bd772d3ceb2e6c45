import { limits } from '../../config/limits.ts'
import { errorChain, hindranceOf } from '../../log/error-chain.ts'
import type { Hindrance } from '../../core/errors.ts'
import type { Log } from '../../log/log.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Store } from '../../store/store.ts'

export type RecordsWatchOptions = {
  readonly store: Pick<Store, 'lookAtFiles' | 'keepOpenRecords' | 'removeOpenRecords'>
  readonly clock: Clock
  readonly log: Log
}

/**
 * Notices that a file of the records was removed or replaced under the daemon. Then nothing but the daemon has the
 * records, so it keeps a copy of them, which an operator can put back. It does not end: that would lose them.
 */
export class RecordsWatch {
  readonly #options: RecordsWatchOptions
  #fault: Hindrance | undefined
  #copy: string | undefined
  #copyDueMs = -Infinity

  constructor(options: RecordsWatchOptions) {
    this.#options = options
  }

  /** The fault that keeps changes from being stored, as the last look found it. */
  get fault(): Hindrance | undefined {
    return this.#fault
  }

  look(): void {
    const { store, log } = this.#options
    const before = this.#fault
    const found = store.lookAtFiles()
    this.#fault = found && hindranceOf(found)
    if (this.#fault !== undefined) {
      if (before === undefined)
        log.error({ code: this.#fault.code, error: this.#fault.message }, 'records lost under the daemon')
      this.#keep()
    } else if (before !== undefined) {
      log.info({}, 'records at their place again')
      this.#forget()
    }
  }

  /** Copies the records once. A copy that fails is tried again after a pause, because it blocks the event loop. */
  #keep(): void {
    const { store, clock, log } = this.#options
    if (this.#copy !== undefined || clock.monotonicMs() < this.#copyDueMs) return
    this.#copyDueMs = clock.monotonicMs() + limits.openRecordsCopyRetryMs
    try {
      this.#copy = store.keepOpenRecords(clock.now())
      log.warn(
        { path: this.#copy },
        'copy of the records made: put it back before the daemon is started again',
      )
    } catch (error) {
      log.error({ error: errorChain(error) }, 'no copy of the records: they end with this process')
    }
  }

  /** Removes the copy. Later changes are not in it, and it holds secrets. */
  #forget(): void {
    if (this.#copy !== undefined) this.#options.store.removeOpenRecords(this.#copy)
    this.#copy = undefined
    this.#copyDueMs = -Infinity
  }
}
