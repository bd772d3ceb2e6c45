import { FairPlaces } from '../../lib/fair-places.ts'
import { NoAnswer } from '../files/bounded-calls.ts'
import type { ImageWriter } from './image-writer.ts'

/** The thread that stores a fetched image: whether it still has a call under way. */
export type StoringThread = Pick<ImageWriter, 'hasEnded' | 'ended'>

/** Runs a fetch, and calls `onThread` with each thread that it starts. */
export type PlacedFetch = (onThread: (thread: StoringThread) => void) => Promise<void>

/**
 * Limits how many fetches run at once, and lets no source take every place. A fetch whose thread hangs in a write keeps
 * its place until the write ends.
 */
export class FetchPlaces {
  /** How many places one source may have. If a fetch hangs in as many, the others of the source would wait silently. */
  readonly #hangingMax: number
  readonly #turn: FairPlaces
  #hanging = 0
  /** Aborted when so many fetches hang. */
  #stuck = new AbortController()

  constructor(places: number) {
    this.#hangingMax = Math.max(1, places - 1)
    this.#turn = new FairPlaces(places)
  }

  /** Throws NoAnswer if too many fetches hang, and the signal's reason when it aborts. */
  async run(source: string, fetch: PlacedFetch, signal: AbortSignal): Promise<void> {
    if (this.#hanging >= this.#hangingMax) throw refused()
    const release = await this.#turn.take([source], AbortSignal.any([signal, this.#stuck.signal]))
    const threads: StoringThread[] = []
    try {
      await fetch((thread) => threads.push(thread))
    } finally {
      const hanging = threads.filter(({ hasEnded }) => !hasEnded)
      if (hanging.length === 0) release()
      else this.#keep(release, Promise.all(hanging.map(({ ended }) => ended)))
    }
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
