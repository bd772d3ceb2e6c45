import { assert } from '../../lib/assert.ts'
import { abortable } from '../../lib/abortable.ts'
import type { StagingId } from '../../core/snapshots/record.ts'

type Waiting = { readonly of: StagingId; readonly come: () => void }

/**
 * Places for parts of all snapshots that are sent at the same time. The snapshot with the fewest places comes first;
 * equals come in order of arrival. If there are several places, the last free one is reserved for a snapshot without
 * one. So one slow upload cannot take every place.
 */
export class UploadPlaces {
  #free: number
  readonly #keptFree: number
  readonly #held = new Map<StagingId, number>()
  #waiting: Waiting[] = []

  constructor(places: number) {
    assert(places > 0, 'parts need a place')
    this.#free = places
    this.#keptFree = places > 1 ? 1 : 0
  }

  /**
   * Runs a task when its turn has come. Rejects with the signal's reason if that aborts first; the task then never
   * runs.
   */
  async run<T>(of: StagingId, task: () => Promise<T>, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted()
    const { promise, resolve } = Promise.withResolvers<void>()
    const waiting: Waiting = { of, come: resolve }
    this.#waiting.push(waiting)
    this.#admit()
    try {
      await abortable(promise, signal)
    } catch (error) {
      if (this.#waiting.includes(waiting)) this.#waiting = this.#waiting.filter((other) => other !== waiting)
      else this.#give(of)
      throw error
    }
    try {
      return await task()
    } finally {
      this.#give(of)
    }
  }

  #give(of: StagingId): void {
    const left = this.#heldBy(of) - 1
    if (left === 0) this.#held.delete(of)
    else this.#held.set(of, left)
    this.#free += 1
    this.#admit()
  }

  #admit(): void {
    while (this.#free > 0) {
      const next = this.#waiting.reduce<Waiting | undefined>(
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

  #heldBy(of: StagingId): number {
    return this.#held.get(of) ?? 0
  }
}
