import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { err, ok } from '../../lib/result.ts'
import { UnchangedSince } from '../../lib/unchanged-since.ts'
import { errorChain } from '../../log/error-chain.ts'
import { ImageRemoval } from './image-removal.ts'
import { HOUR_MS } from '../../lib/time-units.ts'
import type { Rejection } from '../../core/errors.ts'
import type { OperationId, Sha256, VmId } from '../../core/ids.ts'
import type { Result } from '../../lib/result.ts'
import type { Log } from '../../log/log.ts'
import type { Clock } from '../../ports/clock.ts'
import type { StoredImage, Storage } from '../../ports/storage.ts'
import type { Store } from '../../store/store.ts'

/** An image in the pool, and how VMs use it. */
export type ShelvedImage = StoredImage & {
  /** Number of VMs on record that use the image. */
  readonly useCount: number
  /** When a VM last used it; absent if none ever did. */
  readonly lastUsedAtMs?: number
  /** The image is on record for removal. */
  readonly isRemoving?: true
}

export type ImageShelfOptions = {
  readonly storage: Pick<Storage, 'images' | 'removeImage'>
  readonly store: Pick<Store, 'images' | 'transaction' | 'flushed'>
  readonly clock: Clock
  /** Hours after which an unused image is removed; 0 keeps it. */
  readonly idleHours: number
  readonly log: Log
}

/** The result of a request to remove an image. `recorded`: the removal was on record before. */
export type RemovalRequest = 'gone' | 'removing' | 'recorded'

/** The images of the pool: shown, removed on request, and removed when no VM has used them for long. */
export class ImageShelf {
  readonly #options: ImageShelfOptions
  readonly #removal: ImageRemoval
  #sweeping: Promise<void> | undefined
  #cancelTimer = (): void => {}
  #stopped = false
  /** Images of the last look into the pool; undefined before the first. */
  #seen: ReadonlySet<Sha256> | undefined
  /** When each unused image was last used, by the sweeps of this process. */
  readonly #unused = new UnchangedSince<Sha256, number>()

  constructor(options: ImageShelfOptions) {
    this.#options = options
    const storage: ImageShelfOptions['storage'] = {
      images: () => this.#look(),
      removeImage: (sha256, mayRemove) => options.storage.removeImage(sha256, mayRemove),
    }
    this.#removal = new ImageRemoval({ ...options, storage })
  }

  /** Continues removals and begins to look for unused images at intervals; resolves after the first look. */
  async start(): Promise<void> {
    if (this.#stopped) return
    this.#removal.poke()
    this.#sweeping = this.#sweep()
    await this.#sweeping
    if (this.#stopped) return
    this.#cancelTimer = this.#options.clock.after(limits.imageSweepMs, () => void this.start())
  }

  /** Resolves when no removal is running any more. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelTimer()
    await Promise.all([this.#sweeping, this.#removal.stop()])
  }

  /** Lists the images in the order of their digests. Throws HostFault `storage_inspection_failed`. */
  async list(): Promise<readonly ShelvedImage[]> {
    const { store } = this.#options
    const images = await this.#look()
    const uses = store.images.uses()
    const removals = new Set(store.images.removals().map(({ sha256 }) => sha256))
    return images.map((image) => {
      const { count = 0, lastUsedAtMs } = uses.get(image.sha256) ?? {}
      return {
        ...image,
        useCount: count,
        ...(lastUsedAtMs !== undefined && { lastUsedAtMs }),
        ...(removals.has(image.sha256) && { isRemoving: true }),
      }
    })
  }

  /**
   * Records that an image must be removed, and begins once that is flushed. Refused while a VM on record uses it. Does
   * not wait, so whether there is such an image may be unknown; if it is known that there is none, nothing is recorded.
   */
  requestRemoval(sha256: Sha256, operationId: OperationId): Result<RemovalRequest, Rejection> {
    const { store, clock } = this.#options
    const result = store.transaction((): Result<RemovalRequest, Rejection> => {
      const count = this.#useCount(sha256)
      if (count > 0) return err(inUse(sha256, count, store.images.users(sha256, limits.imageUsersNamedMax)))
      if (this.#isGone(sha256)) return ok('gone')
      if (store.images.hasRemoval(sha256)) return ok('recorded')
      store.images.noteRemoval(sha256, clock.now(), operationId)
      return ok('removing')
    })
    if (result.ok && result.value !== 'gone') void store.flushed().then(() => this.#removal.poke())
    return result
  }

  async #look(): Promise<readonly StoredImage[]> {
    const images = await this.#options.storage.images()
    this.#seen = new Set(images.map(({ sha256 }) => sha256))
    return images
  }

  /** Returns whether the last look did not find the image, and no VM can have brought it since. */
  #isGone(sha256: Sha256): boolean {
    const { store } = this.#options
    if (this.#seen === undefined || this.#seen.has(sha256)) return false
    return !store.images.hasRemoval(sha256) && !store.images.uses().has(sha256)
  }

  #useCount(sha256: Sha256): number {
    return this.#options.store.images.uses().get(sha256)?.count ?? 0
  }

  async #sweep(): Promise<void> {
    const { idleHours, clock, log } = this.#options
    if (idleHours === 0) return
    const images = await this.#orLog({}, () => this.list())
    if (images === undefined) return
    const unused = images.filter(({ useCount }) => useCount === 0)
    this.#unused.keepOnly(new Set(unused.map(({ sha256 }) => sha256)))
    const idleMsMin = idleHours * HOUR_MS
    const holdMs = Math.min(idleMsMin, limits.imageHoldMs)
    for (const { sha256, fetchedAtMs, lastUsedAtMs = 0 } of unused) {
      if (this.#stopped) return
      const usedAtMs = Math.max(fetchedAtMs, lastUsedAtMs)
      const watchedMs = this.#unused.note(sha256, lastUsedAtMs, clock.monotonicMs())
      // The clock may have been ahead at the last use.
      const idleMs = Math.max(watchedMs, clock.now() - usedAtMs)
      // It may be ahead now, as before it is set after a boot.
      if (idleMs < idleMsMin || watchedMs < holdMs) continue
      log.info({ sha256, idle_hours: Math.floor(idleMs / HOUR_MS) }, 'idle image found')
      await this.#orLog({ sha256 }, () => this.#removeIdle(sha256))
    }
  }

  async #removeIdle(sha256: Sha256): Promise<void> {
    const { storage, store, log } = this.#options
    // The store is asked, not a list, because a VM may have been created from the image since.
    if (!(await storage.removeImage(sha256, () => this.#useCount(sha256) === 0))) return
    store.images.forgetUses(sha256)
    log.info({ sha256 }, 'image removed')
  }

  /**
   * Logs a failure with one image. Nothing waits for a sweep, and a failure must not prevent the next image or the next
   * sweep.
   */
  async #orLog<T>(words: { readonly sha256?: Sha256 }, act: () => Promise<T>): Promise<T | undefined> {
    const { log } = this.#options
    try {
      return await act()
    } catch (error) {
      if (error instanceof HostFault)
        log.warn({ ...words, code: error.code, error: errorChain(error) }, 'idle image removal postponed')
      else log.error({ ...words, error }, 'image sweep failed: internal error')
      return undefined
    }
  }
}

/** @param users some of the VMs, to be named */
function inUse(sha256: Sha256, count: number, users: readonly VmId[]): Rejection {
  const [those, them] = count === 1 ? ['VM', 'it'] : [`${count} VMs`, 'them']
  const rest = count - users.length
  const names = `${users.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`
  return {
    code: 'image_in_use',
    detail: `the image ${sha256.slice(0, 8)} is in use by the ${those} ${names} on this host: delete ${them} first`,
  }
}
