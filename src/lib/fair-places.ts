import { assert } from './assert.ts'
import { abortable } from './abortable.ts'

type Waiting<Owner> = { readonly of: Owner; readonly come: () => void }

/**
 * Lets at most `places` tasks run at once. Each task is of an owner. The owner with the fewest places comes first;
 * equals come in order of arrival. If there are several places, the last free one is reserved for an owner without one.
 * So the slow tasks of one owner cannot take every place.
 */
export class FairPlaces<Owner> {
  #free: number
  readonly #keptFree: number
  readonly #held = new Map<Owner, number>()
  #waiting: Waiting<Owner>[] = []

  constructor(places: number) {
    assert(places > 0, 'tasks need a place')
    this.#free = places
    this.#keptFree = places > 1 ? 1 : 0
  }

  /**
   * Runs a task when its turn has come. Rejects with the signal's reason if that aborts first; the task then never
   * runs.
   */
  async run<T>(of: Owner, task: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const release = await this.take(of, signal)
    try {
      return await task()
    } finally {
      release()
    }
  }

  /**
   * Takes a place like {@link run}, for a caller that gives it back itself. Resolves to the function that does so; call
   * it once.
   */
  async take(of: Owner, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const { promise, resolve } = Promise.withResolvers<void>()
    const waiting: Waiting<Owner> = { of, come: resolve }
    this.#waiting.push(waiting)
    this.#admit()
    try {
      await abortable(promise, signal)
    } catch (error) {
      if (this.#waiting.includes(waiting)) this.#waiting = this.#waiting.filter((other) => other !== waiting)
      else this.#give(of)
      throw error
    }
    return () => this.#give(of)
  }

  #give(of: Owner): void {
    const left = this.#heldBy(of) - 1
    if (left === 0) this.#held.delete(of)
    else this.#held.set(of, left)
    this.#free += 1
    this.#admit()
  }

  #admit(): void {
    while (this.#free > 0) {
      const next = this.#waiting.reduce<Waiting<Owner> | undefined>(
        (best, each) => (best !== undefined && this.#heldBy(best.of) <= this.#heldBy(each.of) ? best : each),
        undefined,
      )
      if (next === undefined || (this.#heldBy(next.of) > 0 && this.#free <= this.#keptFree)) return
      this.#waiting.splice(this.#waiting.indexOf(next), 1)
      this.#free -= 1
      this.#held.set(next.of, this.#heldBy(next.of) + 1)
      next.come()
    }
  }

  #heldBy(of: Owner): number {
    return this.#held.get(of) ?? 0
  }
}
