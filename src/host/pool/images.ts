import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { ImageSource } from '../../core/storage/image-source.ts'
import type { Sha256 } from '../../core/vm/ids.ts'
import { abortable } from '../../lib/abortable.ts'
import { publish, sync } from './durable.ts'
import { fetchImage } from './fetch-image.ts'
import { FetchPlaces } from './fetch-places.ts'
import type { PlacedFetch, StoringThread } from './fetch-places.ts'
import type { FetchTerms } from './fetch-image.ts'
import { chmod, removeFile, rename, stat } from './pool-files.ts'
import type { PoolPaths } from './pool-paths.ts'
import { ifThere, storageFault } from './storage-fault.ts'

const READ_ONLY_MODE = 0o444

/** One fetch, and how many are waiting for it. */
type Shared = { readonly done: Promise<void>; readonly controller: AbortController; askers: number }

type Fetching = {
  readonly signal: AbortSignal
  readonly onThread: (thread: StoringThread) => void
}

/** The images of a pool. A digest is fetched once at a time, whoever asks, and only while somebody still does. */
export class Images {
  readonly #paths: PoolPaths
  readonly #terms: FetchTerms
  readonly #places: FetchPlaces
  readonly #fetches = new Map<Sha256, Shared>()
  /** How many tasks read an image now. */
  readonly #uses = new Map<Sha256, number>()

  constructor(paths: PoolPaths, terms: FetchTerms, fetchesMax: number) {
    this.#paths = paths
    this.#terms = terms
    this.#places = new FetchPlaces(fetchesMax)
  }

  async ensure(sha256: Sha256, source: ImageSource, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (await this.#has(sha256)) return
    const shared = this.#fetches.get(sha256) ?? this.#begin(sha256, source)
    shared.askers += 1
    try {
      await abortable(shared.done, signal)
    } finally {
      shared.askers -= 1
      // The last to leave turns off the light, and waits until it is dark: no fetch runs on behind an abort.
      if (shared.askers === 0) await this.#end(sha256, shared)
    }
  }

  /** Runs a task that reads the image; it is not removed meanwhile. */
  async using<T>(sha256: Sha256, task: () => Promise<T>): Promise<T> {
    this.#uses.set(sha256, (this.#uses.get(sha256) ?? 0) + 1)
    try {
      return await task()
    } finally {
      const left = (this.#uses.get(sha256) ?? 0) - 1
      if (left > 0) this.#uses.set(sha256, left)
      else this.#uses.delete(sha256)
    }
  }

  /** Leaves alone what is being fetched or read. What is not there is no failure. */
  async remove(sha256: Sha256): Promise<void> {
    if (this.#fetches.has(sha256) || this.#uses.has(sha256)) return
    const removed = join(this.#paths.tmp, `removed-image-${randomUUID()}`)
    try {
      // In one step, so that nobody finds half an image; what is left after a crash, start sweeps.
      if ((await ifThere(rename(this.#paths.image(sha256), removed).then(() => true))) !== true) return
      await sync(this.#paths.images)
      await removeFile(removed)
    } catch (error) {
      throw storageFault(error, `removing image ${sha256}`)
    }
  }

  async #has(sha256: Sha256): Promise<boolean> {
    try {
      return (await ifThere(stat(this.#paths.image(sha256)))) !== undefined
    } catch (error) {
      throw storageFault(error, `looking for image ${sha256}`)
    }
  }

  #begin(sha256: Sha256, source: ImageSource): Shared {
    const controller = new AbortController()
    const { signal } = controller
    const fetch: PlacedFetch = (onThread) => this.#fetch(sha256, source, { signal, onThread })
    const done = this.#places.run(fetch, signal)
    const shared = { done, controller, askers: 0 }
    this.#fetches.set(sha256, shared)
    return shared
  }

  async #end(sha256: Sha256, { controller, done }: Shared): Promise<void> {
    this.#fetches.delete(sha256)
    controller.abort()
    await done.catch(() => {})
  }

  async #fetch(sha256: Sha256, source: ImageSource, { signal, onThread }: Fetching): Promise<void> {
    const target = join(this.#paths.tmp, `image-${randomUUID()}`)
    try {
      await fetchImage({ sha256, url: source.url.reveal(), target, signal, onThread }, this.#terms)
      await chmod(target, READ_ONLY_MODE)
      await publish(target, this.#paths.image(sha256))
    } catch (error) {
      throw storageFault(error, `storing image ${sha256}`)
    } finally {
      await removeFile(target)
    }
  }
}
