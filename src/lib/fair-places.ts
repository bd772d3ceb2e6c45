import { assert } from './assert.ts'
import { abortable } from './abortable.ts'

/** The owner of a place, from its widest part to the narrowest, as an object store and a snapshot. */
export type PlaceOwner = readonly string[]

/** `keys` has a key for each part of the owner. */
type Waiting = { readonly keys: readonly string[]; readonly come: () => void }

/**
 * Lets at most `places` tasks run at once. Each task is of an owner. The one whose widest part has the fewest places
 * comes first, then the one whose next part has; equals come in order of arrival. If there are several places, the last
 * free one is reserved for an owner without one, unless `reserves` is false. So the slow tasks of one owner cannot take
 * every place.
 */
export class FairPlaces {
  #free: number
  readonly #reserves: boolean
  /** How many places each part of an owner has. */
  readonly #held = new Map<string, number>()
  #waiting: Waiting[] = []

  constructor(places: number, { reserves = true }: { readonly reserves?: boolean } = {}) {
    assert(places > 0, 'tasks need a place')
    this.#free = places
    this.#reserves = reserves
  }

  /**
   * Runs a task when its turn has come. Rejects with the signal's reason if that aborts first; the task then never
   * runs.
   */
  async run<T>(of: PlaceOwner, task: () => Promise<T>, signal: AbortSignal): Promise<T> {
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
  async take(of: PlaceOwner, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const { promise, resolve } = Promise.withResolvers<void>()
    const keys = keysOf(of)
    const waiting: Waiting = { keys, come: resolve }
    this.#waiting.push(waiting)
    this.#admit()
    try {
      await abortable(promise, signal)
    } catch (error) {
      if (this.#waiting.includes(waiting)) this.#waiting = this.#waiting.filter((other) => other !== waiting)
      else this.#give(keys)
      throw error
    }
    return () => this.#give(keys)
  }

  #give(keys: readonly string[]): void {
    for (const key of keys) {
      const left = this.#heldBy(key) - 1
      if (left === 0) this.#held.delete(key)
      else this.#held.set(key, left)
    }
    this.#free += 1
    this.#admit()
  }

  #admit(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#waiting.splice(this.#waiting.indexOf(next), 1)
      this.#free -= 1
      for (const key of next.keys) this.#held.set(key, this.#heldBy(key) + 1)
      next.come()
    }
  }

  /** Returns the task whose turn it is; undefined if no task may have a place now. */
  #next(): Waiting | undefined {
    if (this.#free === 0) return undefined
    // A single place is free only while no owner has one.
    const isForAll = this.#free > 1 || !this.#reserves
    let first: Waiting | undefined
    for (const waiting of this.#waiting) {
      if (!isForAll && this.#heldBy(waiting.keys.at(-1) ?? '') > 0) continue
      if (first === undefined || this.#hasFewer(waiting, first)) first = waiting
    }
    return first
  }

  #hasFewer(one: Waiting, other: Waiting): boolean {
    const differences = one.keys.map((key, at) => this.#heldBy(key) - this.#heldBy(other.keys[at] ?? ''))
    return (differences.find((difference) => difference !== 0) ?? 0) < 0
  }

  #heldBy(key: string): number {
    return this.#held.get(key) ?? 0
  }
}

const keysOf = (of: PlaceOwner): readonly string[] =>
  of.map((_, index) => JSON.stringify(of.slice(0, index + 1)))
