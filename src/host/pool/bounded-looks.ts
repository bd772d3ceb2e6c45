import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import type { FaultCode } from '../../core/errors.ts'

export type BoundedLooksOptions = {
  /** Of the fault that stands for no answer. */
  readonly code: FaultCode
  /** Looks that may run at once, and so threads that can be lost. */
  readonly places: number
  readonly boundMs?: number
}

/**
 * Looks at one thing, each begun after it was asked for. Some system calls never return, as statfs(2) on a file system
 * whose server is gone: such a look is given up, and while as many hang as there are places, no other is begun. So a few
 * threads are lost to it until it ends, and not, look by look, all that Node has for files.
 */
export class BoundedLooks {
  readonly #code: FaultCode
  readonly #places: number
  readonly #boundMs: number
  readonly #turn: Semaphore
  /** Looks that were given up and have not ended. */
  #hanging = 0
  /** Aborted when every place hangs: then nobody's turn comes. */
  #stuck = new AbortController()

  constructor({ code, places, boundMs = limits.hostLookMs }: BoundedLooksOptions) {
    this.#code = code
    this.#places = places
    this.#boundMs = boundMs
    this.#turn = new Semaphore(places)
  }

  /** What `look` finds. It takes no longer than the bound once its turn has come; throws HostFault where it would. */
  async take<T>(doing: string, look: () => Promise<T>): Promise<T> {
    const stuck = this.#stuck.signal
    const late = Promise.withResolvers<never>()
    const giveUp = (): void => late.reject(this.#fault(doing, `no answer for ${this.#boundMs / 1000} s`))
    try {
      if (this.#hanging >= this.#places) throw STUCK
      const running = this.#turn.run(() => this.#counted(look, giveUp), stuck)
      // After it was given up nobody waits for how it ends.
      running.catch(() => {})
      return await Promise.race([running, late.promise])
    } catch (error) {
      throw error === STUCK ? this.#fault(doing, 'an earlier look still has no answer') : error
    }
  }

  async #counted<T>(look: () => Promise<T>, giveUp: () => void): Promise<T> {
    let hangs = false
    const timer = setTimeout(() => {
      hangs = true
      this.#hanging += 1
      giveUp()
      if (this.#hanging >= this.#places) this.#stuck.abort(STUCK)
    }, this.#boundMs)
    try {
      return await look()
    } finally {
      clearTimeout(timer)
      if (hangs) this.#hanging -= 1
      if (this.#stuck.signal.aborted) this.#stuck = new AbortController()
    }
  }

  #fault(doing: string, because: string): HostFault {
    return new HostFault(this.#code, doing, { cause: new Error(because) })
  }
}

const STUCK = new Error('every place hangs')
