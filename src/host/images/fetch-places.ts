import { limits } from '../../config/limits.ts'
import { FairPlaces } from '../../lib/fair-places.ts'
import { NoAnswer } from '../files/bounded-calls.ts'
import type { ImageWriter } from './image-writer.ts'

/** The thread that stores a fetched image: whether it still has a call under way. */
export type StoringThread = Pick<ImageWriter, 'hasEnded' | 'ended'>

export type PlacedFetch = {
  /** Fetches of one source share places. */
  readonly source: string
  /** Whether the fetch can begin again after it was aborted. */
  readonly isRepeatable: boolean
  /** Fetches until it is done or aborted, and calls `onThread` with each thread that it starts. */
  readonly fetch: (signal: AbortSignal, onThread: (thread: StoringThread) => void) => Promise<void>
}

/** A fetch that has a place. It gives the place up when `giveUp` aborts. */
type Running = PlacedFetch & { readonly giveUp: AbortController }

/** Thrown by a fetch that was aborted because another source waits. */
class GivenUp extends Error {
  override readonly name = 'GivenUp'
}

/**
 * Limits how many fetches run at once, and lets no source take every place. A source that waits for long without a
 * place gets one of the source with the most. A fetch whose thread hangs in a write keeps its place until the write
 * ends.
 */
export class FetchPlaces {
  /** How many places one source may have. If a fetch hangs in as many, the others of the source would wait silently. */
  readonly #hangingMax: number
  readonly #turn: FairPlaces
  readonly #running = new Set<Running>()
  #hanging = 0
  /** Aborted when so many fetches hang. */
  #stuck = new AbortController()

  constructor(places: number) {
    this.#hangingMax = Math.max(1, places - 1)
    this.#turn = new FairPlaces(places)
  }

  /** Throws NoAnswer if too many fetches hang, the signal's reason when it aborts, and what the fetch throws. */
  async run(placed: PlacedFetch, signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        return await this.#runInTurn({ ...placed, giveUp: new AbortController() }, signal)
      } catch (error) {
        if (!(error instanceof GivenUp)) throw error
      }
    }
  }

  async #runInTurn(running: Running, signal: AbortSignal): Promise<void> {
    if (this.#hanging >= this.#hangingMax) throw refused()
    const release = await this.#take(running.source, AbortSignal.any([signal, this.#stuck.signal]))
    const threads: StoringThread[] = []
    this.#running.add(running)
    try {
      await running.fetch(AbortSignal.any([signal, running.giveUp.signal]), (thread) => threads.push(thread))
    } finally {
      this.#running.delete(running)
      const hanging = threads.filter(({ hasEnded }) => !hasEnded)
      if (hanging.length === 0) release()
      else this.#keep(release, Promise.all(hanging.map(({ ended }) => ended)))
    }
  }

  async #take(source: string, signal: AbortSignal): Promise<() => void> {
    const timer = setInterval(() => this.#makeRoom(source), limits.imagePlaceWaitMs)
    try {
      return await this.#turn.take([source], signal)
    } finally {
      clearInterval(timer)
    }
  }

  /**
   * Ends the newest fetch of the source with the most places, if this one has none. One at a time gives its place up.
   */
  #makeRoom(source: string): void {
    const bySource = Map.groupBy(this.#running, (running) => running.source)
    if (bySource.has(source) || [...this.#running].some(({ giveUp }) => giveUp.signal.aborted)) return
    const [most] = [...bySource.values()]
      .filter((running) => running.length > 1 && running.some(({ isRepeatable }) => isRepeatable))
      .toSorted((a, b) => b.length - a.length)
    most?.findLast(({ isRepeatable }) => isRepeatable)?.giveUp.abort(new GivenUp())
  }

  #keep(release: () => void, ended: Promise<unknown>): void {
    this.#hanging += 1
    if (this.#hanging >= this.#hangingMax) this.#stuck.abort(refused())
    void ended.then(() => this.#free(release))
  }

  #free(release: () => void): void {
    this.#hanging -= 1
    if (this.#stuck.signal.aborted) this.#stuck = new AbortController()
    release()
  }
}

const refused = (): NoAnswer => new NoAnswer('earlier fetches still have no answer from the storage pool')
