import { limits } from '../../config/limits.ts'
import { BoundedCalls } from './bounded-calls.ts'
import { storageFault } from './storage-fault.ts'
import type { FaultCode } from '../../core/errors.ts'

export type BoundedLooksOptions = {
  /** The code of the fault that is thrown when there is no answer. */
  readonly code: FaultCode
  /** How many looks may run at once. */
  readonly places: number
  readonly boundMs?: number
}

/** Runs looks at one thing that may not answer. Each look begins after it was requested. */
export class BoundedLooks {
  readonly #code: FaultCode
  readonly #calls: BoundedCalls

  constructor({ code, places, boundMs = limits.hostLookMs }: BoundedLooksOptions) {
    this.#code = code
    this.#calls = new BoundedCalls({ places, boundMs })
  }

  /**
   * Returns the result of `look`. Throws HostFault if a system call of it fails, or if it takes longer than the bound,
   * counted from when it got a place.
   */
  async take<T>(doing: string, look: () => Promise<T>): Promise<T> {
    try {
      return await this.#calls.take(look)
    } catch (error) {
      throw storageFault(error, doing, this.#code)
    }
  }
}
