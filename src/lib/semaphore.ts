import { assert } from './assert.ts'

type Waiting = {
  readonly come: () => void
  /** Asked each time that a place becomes free. */
  readonly mayWait: () => boolean
}

/**
 * Lets at most `places` tasks run at once; the others wait for their turn in order of arrival, and those that may wait
 * come after all others.
 */
export class Semaphore {
  #free: number
  readonly #waiting: Waiting[] = []

  constructor(places: number) {
    assert(places > 0, 'a semaphore needs a place')
    this.#free = places
  }

  /** Whether a task would begin at once. */
  get isFree(): boolean {
    return this.#free > 0
  }

  /**
   * Rejects with the signal's reason when that aborts before the task's turn has come; the task then never runs. If a
   * place is free, the task begins at once.
   */
  async run<T>(task: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted()
    if (this.#free > 0) this.#free -= 1
    else await this.#turn(signal)
    try {
      return await task()
    } finally {
      this.#give()
    }
  }

  /**
   * Takes a place like {@link run}, for a caller that gives it back itself. Resolves to the function that does so; call
   * it once.
   */
  async take(signal?: AbortSignal, mayWait?: Waiting['mayWait']): Promise<() => void> {
    signal?.throwIfAborted()
    if (this.#free > 0) this.#free -= 1
    else await this.#turn(signal, mayWait)
    return () => this.#give()
  }

  #give(): void {
    const pressing = this.#waiting.findIndex(({ mayWait }) => !mayWait())
    const [next] = this.#waiting.splice(Math.max(pressing, 0), 1)
    if (next === undefined) this.#free += 1
    else next.come()
  }

  async #turn(signal: AbortSignal | undefined, mayWait: Waiting['mayWait'] = () => false): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const leave = (): void => {
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
      reject(signal?.reason)
    }
    const come = (): void => {
      signal?.removeEventListener('abort', leave)
      resolve()
    }
    const waiting = { come, mayWait }
    this.#waiting.push(waiting)
    signal?.addEventListener('abort', leave, { once: true })
    await promise
  }
}

/**
 * Runs the tasks of one key one after another, in order of arrival; tasks of different keys do not wait for each other.
 */
export class Turns<Key> {
  readonly #keys = new Map<Key, { readonly turn: Semaphore; tasks: number }>()

  /** Rejects with the signal's reason if it aborts before the turn of the task; the task then never runs. */
  async run<T>(key: Key, task: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const entry = this.#keys.get(key) ?? { turn: new Semaphore(1), tasks: 0 }
    this.#keys.set(key, entry)
    entry.tasks += 1
    try {
      return await entry.turn.run(task, signal)
    } finally {
      entry.tasks -= 1
      if (entry.tasks === 0) this.#keys.delete(key)
    }
  }
}
