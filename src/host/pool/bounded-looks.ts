import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { BoundedCalls, NoAnswer } from './bounded-calls.ts'
import type { FaultCode } from '../../core/errors.ts'

export type BoundedLooksOptions = {
  /** Of the fault that stands for no answer. */
  readonly code: FaultCode
  /** Looks that may run at once. */
  readonly places: number
  readonly boundMs?: number
}

/** Looks at one thing that may not answer, each begun after it was asked for. */
export class BoundedLooks {
  readonly #code: FaultCode
  readonly #calls: BoundedCalls

  constructor({ code, places, boundMs = limits.hostLookMs }: BoundedLooksOptions) {
    this.#code = code
    this.#calls = new BoundedCalls({ places, boundMs })
  }

  /** What `look` finds. It takes no longer than the bound once its turn has come; throws HostFault where it would. */
  async take<T>(doing: string, look: () => Promise<T>): Promise<T> {
    try {
      return await this.#calls.take(look)
    } catch (error) {
      throw error instanceof NoAnswer ? new HostFault(this.#code, doing, { cause: error.cause }) : error
    }
  }
}
