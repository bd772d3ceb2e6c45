import { HostFault } from '../../core/errors.ts'
import { Semaphore } from '../../lib/semaphore.ts'

/** Thrown when a call was given up, or was not begun, because the storage does not answer. */
export class NoAnswer extends HostFault {
  constructor(because: string) {
    super('storage_failed', 'calling the storage', { cause: new Error(because) })
  }
}

export type BoundedCallsOptions = {
  /** How many calls may run at once, and so how many threads can be lost. */
  readonly places: number
  readonly boundMs: number
}

export type CallTerms = {
  /** The things that the call is about. While a call about one of them has no answer, no other call about it begins. */
  readonly about?: readonly string[]
  /** The bound of this call; absent: the bound of all calls. */
  readonly boundMs?: number
}

/**
 * Runs calls of which some may never return, such as statfs(2) on a file system whose server is gone. A call that takes
 * longer than its bound is given up, and keeps its place until it ends. While every place has a call that hangs, no
 * other call begins. So at most a few threads are lost until then, and not, call by call, all threads that Node has for
 * files.
 */
export class BoundedCalls {
  readonly #places: number
  readonly #boundMs: number
  readonly #turn: Semaphore
  /** How many calls were given up and have not ended. */
  #hanging = 0
  /** Aborted when a call hangs in every place, because then no place becomes free. */
  #stuck = new AbortController()
  readonly #unanswered = new Map<string, number>()

  constructor({ places, boundMs }: BoundedCallsOptions) {
    this.#places = places
    this.#boundMs = boundMs
    this.#turn = new Semaphore(places)
  }

  /**
   * Returns the result of `call`. Throws NoAnswer if the call takes longer than the bound, counted from when it got a
   * place.
   */
  async take<T>(call: () => Promise<T>, { about = [], boundMs = this.#boundMs }: CallTerms = {}): Promise<T> {
    if (this.#hanging >= this.#places || about.some((thing) => this.#unanswered.has(thing))) throw refused()
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const giveUp = (): void => reject(new NoAnswer(`no answer for ${boundMs / 1000} s`))
    const bounded = (): Promise<T> => this.#bounded(call, { about, boundMs, giveUp })
    // After the call was given up, its result no longer matters.
    this.#turn.run(bounded, this.#stuck.signal).then(resolve, reject)
    return promise
  }

  /**
   * Makes a call that must not be skipped, such as one that closes a file. It waits for a place for as long as that
   * takes. Resolves when the call has ended, or when it takes longer than a call may. Throws only what the call throws.
   */
  async takeAtLast(call: () => Promise<void>): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const { signal: stuck } = this.#stuck
    const giveUp = (): void => resolve()
    this.#turn
      .run(() => this.#bounded(call, { about: [], boundMs: this.#boundMs, giveUp }))
      .then(resolve, reject)
    if (stuck.aborted) giveUp()
    stuck.addEventListener('abort', giveUp, { once: true })
    try {
      await promise
    } finally {
      stuck.removeEventListener('abort', giveUp)
    }
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
    // Unref'd, because a call that hangs in the kernel keeps the process alive by itself.
    timer.unref()
    try {
      return await call()
    } finally {
      clearTimeout(timer)
      if (hangs) this.#note(about, -1)
    }
  }

  /** Counts one more, or one fewer, hanging call. */
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
