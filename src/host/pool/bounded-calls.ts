import { HostFault } from '../../core/errors.ts'
import { Semaphore } from '../../lib/semaphore.ts'

/** A call was given up, or not begun, because the storage gives no answer. */
export class NoAnswer extends HostFault {
  constructor(because: string) {
    super('storage_failed', 'calling the storage', { cause: new Error(because) })
  }
}

export type BoundedCallsOptions = {
  /** Calls that may run at once, and so threads that can be lost. */
  readonly places: number
  readonly boundMs: number
}

export type CallTerms = {
  /** What the call is about. While a call about the same has no answer, no other begins. */
  readonly about?: readonly string[]
  /** Of all calls where absent. */
  readonly boundMs?: number
}

/**
 * Calls of which some may never return, as statfs(2) on a file system whose server is gone. A call that takes longer than
 * its bound is given up, and keeps its place until it ends. While as many hang as there are places, no other begins. So a
 * few threads are lost until then, and not, call by call, all that Node has for files.
 */
export class BoundedCalls {
  readonly #places: number
  readonly #boundMs: number
  readonly #turn: Semaphore
  /** Calls that were given up and have not ended. */
  #hanging = 0
  /** Aborted when every place hangs: then no turn comes. */
  #stuck = new AbortController()
  readonly #unanswered = new Map<string, number>()

  constructor({ places, boundMs }: BoundedCallsOptions) {
    this.#places = places
    this.#boundMs = boundMs
    this.#turn = new Semaphore(places)
  }

  /** What `call` answers. It takes no longer than the bound once its turn has come; throws NoAnswer where it would. */
  async take<T>(call: () => Promise<T>, { about = [], boundMs = this.#boundMs }: CallTerms = {}): Promise<T> {
    if (this.#hanging >= this.#places || about.some((thing) => this.#unanswered.has(thing))) throw refused()
    const late = Promise.withResolvers<never>()
    const giveUp = (): void => late.reject(new NoAnswer(`no answer for ${boundMs / 1000} s`))
    const bounded = (): Promise<T> => this.#bounded(call, { about, boundMs, giveUp })
    const running = this.#turn.run(bounded, this.#stuck.signal)
    // After it was given up its end is of no interest.
    running.catch(() => {})
    return Promise.race([running, late.promise])
  }

  async #bounded<T>(
    call: () => Promise<T>,
    { about, boundMs, giveUp }: Required<CallTerms> & { readonly giveUp: () => void },
  ): Promise<T> {
    let hangs = false
    const timer = setTimeout(() => {
      hangs = true
      this.#note(about, 1)
      giveUp()
    }, boundMs)
    // A call that hangs in the kernel keeps the process alive by itself.
    timer.unref()
    try {
      return await call()
    } finally {
      clearTimeout(timer)
      if (hangs) this.#note(about, -1)
    }
  }

  /** Counts one more, or one less, that hangs. */
  #note(about: readonly string[], change: 1 | -1): void {
    this.#hanging += change
    for (const thing of about) {
      const count = (this.#unanswered.get(thing) ?? 0) + change
      if (count > 0) this.#unanswered.set(thing, count)
      else this.#unanswered.delete(thing)
    }
    if (this.#hanging >= this.#places) this.#stuck.abort(refused())
    else if (this.#stuck.signal.aborted) this.#stuck = new AbortController()
  }
}

const refused = (): NoAnswer => new NoAnswer('an earlier call still has no answer')
