import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { err, ok } from '../lib/result.ts'
import { errorChain } from '../log/error-chain.ts'
import type { Rejection } from '../core/errors.ts'
import type { Sha256 } from '../core/vm/ids.ts'
import type { Result } from '../lib/result.ts'
import type { Log } from '../log/log.ts'
import type { Clock } from '../ports/clock.ts'
import type { StoredImage, Storage } from '../ports/storage.ts'
import type { Store } from '../store/store.ts'

/** An image in the pool, and who is made of it. */
export type ShelvedImage = StoredImage & {
  /** VMs on record that are made of it. */
  readonly useCount: number
  /** When one last was; absent where none ever was. */
  readonly lastUsedAtMs?: number
}

export type ImageShelfOptions = {
  readonly storage: Pick<Storage, 'images' | 'removeImage'>
  readonly store: Pick<Store, 'imageUses' | 'forgetImageUses'>
  readonly clock: Clock
  /** An image that nobody used for so long is removed; 0 keeps it. */
  readonly idleHours: number
  readonly log: Log
}

const HOUR_MS = 3_600_000

/** The images of the pool: shown, removed when asked for, and removed when nobody has used them for long. */
export class ImageShelf {
  readonly #options: ImageShelfOptions
  #sweeping: Promise<void> | undefined
  #cancelTimer = (): void => {}
  #stopped = false

  constructor(options: ImageShelfOptions) {
    this.#options = options
  }

  /** Begins to look for idle images, again and again; resolves after the first time. */
  async start(): Promise<void> {
    if (this.#stopped) return
    this.#sweeping = this.#sweep()
    await this.#sweeping
    if (this.#stopped) return
    this.#cancelTimer = this.#options.clock.after(limits.imageSweepMs, () => void this.start())
  }

  /** Resolves when nothing is being removed any more. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelTimer()
    await this.#sweeping
  }

  /** In the order of their digests. Throws HostFault `storage_inspection_failed`. */
  async list(): Promise<readonly ShelvedImage[]> {
    const { storage, store } = this.#options
    const images = await storage.images()
    const uses = store.imageUses()
    return images.map((image) => {
      const { count = 0, lastUsedAtMs } = uses.get(image.sha256) ?? {}
      return { ...image, useCount: count, ...(lastUsedAtMs !== undefined && { lastUsedAtMs }) }
    })
  }

  /** Removes an image, or finds that there is none. Throws HostFault. */
  async remove(sha256: Sha256): Promise<Result<void, Rejection>> {
    const { storage, store, log } = this.#options
    // Asked of the store and not of a list: a VM may have been made of it since.
    const count = store.imageUses().get(sha256)?.count ?? 0
    if (count > 0) return err(inUse(sha256, count))
    await storage.removeImage(sha256)
    store.forgetImageUses(sha256)
    log.info({ sha256 }, 'image removed')
    return ok(undefined)
  }

  async #sweep(): Promise<void> {
    const { idleHours, clock, log } = this.#options
    if (idleHours === 0) return
    const images = await this.#orTell({}, () => this.list())
    for (const { sha256, fetchedAtMs, lastUsedAtMs = 0, useCount } of images ?? []) {
      if (this.#stopped) return
      const idleMs = clock.now() - Math.max(fetchedAtMs, lastUsedAtMs)
      if (useCount > 0 || idleMs < idleHours * HOUR_MS) continue
      log.info({ sha256, idle_hours: Math.floor(idleMs / HOUR_MS) }, 'image is idle')
      await this.#orTell({ sha256 }, () => this.remove(sha256))
    }
  }

  /** Nobody waits for a sweep: what goes wrong with one image is told, and keeps neither the next one nor the next sweep away. */
  async #orTell<T>(words: { readonly sha256?: Sha256 }, act: () => Promise<T>): Promise<T | undefined> {
    const { log } = this.#options
    try {
      return await act()
    } catch (error) {
      if (error instanceof HostFault)
        log.warn({ ...words, code: error.code, error: errorChain(error) }, 'an idle image stays; again later')
      else log.error({ ...words, error }, 'a bug in the sweep of images')
      return undefined
    }
  }
}

const inUse = (sha256: Sha256, count: number): Rejection => ({
  code: 'image_in_use',
  detail: `the image ${sha256.slice(0, 8)} is in use by ${count === 1 ? 'a VM' : `${count} VMs`} on this host: delete ${count === 1 ? 'it' : 'them'} first`,
})
