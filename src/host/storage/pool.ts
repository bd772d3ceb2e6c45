import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { limits } from '../../config/limits.ts'
import type { SeedState, StorageState } from '../../core/world/world.ts'
import type { ImageSource } from '../../core/outbound/image-source.ts'
import type { Seed } from '../../core/disks/seed.ts'
import type { Sha256, UserId, VmId } from '../../core/ids.ts'
import { parseVmId } from '../../core/ids.ts'
import { assert } from '../../lib/assert.ts'
import type { Log } from '../../log/log.ts'
import type { DiskSpec, ImageBound, ImageRef, Storage, StoredImage, VmFiles } from '../../ports/storage.ts'
import { BoundedLooks } from '../files/bounded-looks.ts'
import { DISCARDED_PREFIX, emptySaved } from '../pool/discard-saved.ts'
import { sync } from '../files/durable.ts'
import type { Outbound } from '../outbound/outbound-request.ts'
import type { FetchTerms } from '../images/fetch-image.ts'
import { imageThreadBesideThis } from '../images/image-writer.ts'
import { ImageLooks } from '../images/image-looks.ts'
import { Images } from '../images/images.ts'
import { lookAtDisk, onlyUser } from '../disks/look-at-disk.ts'
import { readdir, readlink, removeTree, rename, stat } from '../files/pool-files.ts'
import { sightPool, verifyPool } from '../pool/pool-marker.ts'
import { PoolSavedStates } from '../saved/saved-states.ts'
import { poolPaths, SEED_MODE, seedDigestOf } from '../pool/pool-paths.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import type { ThreadSource } from '../threads/start-thread.ts'
import { PoolStaging } from '../staging/pool-staging.ts'
import type { PackTerms } from '../staging/pool-staging.ts'
import { ifThere, storageFault } from '../files/storage-fault.ts'
import { storedImages } from '../images/stored-images.ts'
import { VmDisks } from '../disks/vm-disks.ts'

export type PoolOptions = {
  readonly directory: string
  /** The id that `markPool` returned at set-up. */
  readonly poolId: string
  /** The directory from which `file:` images are accepted; without it no such image is accepted. */
  readonly localImagesDirectory?: string
  /** The space that stays free in the pool while images are stored. */
  readonly reserveMib?: number
  /** Fetches all other images; without it no such image is accepted. */
  readonly outbound?: Outbound
  readonly bounds?: Partial<Pick<FetchTerms, 'bytesMax' | 'stallMs' | 'totalMs' | 'resumeDelayMs'>>
  /** The script of the thread that stores an image; without it, the one beside the sources. */
  readonly imageThread?: ThreadSource
  /** How snapshots are compressed. */
  readonly packing?: PackTerms
  readonly log: Log
}

/** The storage pool: a directory on a file system, preferably one with reflinks (XFS, btrfs). */
export class Pool implements Storage {
  readonly #paths: PoolPaths
  readonly #poolId: string
  readonly #images: Images
  readonly #imageLooks: ImageLooks
  readonly #disks: VmDisks
  readonly #looks: BoundedLooks
  /** The saved states of guests, beside their disks. */
  readonly savedStates: PoolSavedStates
  /** The snapshots of disks, until they are sent. */
  readonly staging: PoolStaging
  #swept: Promise<void> | undefined

  constructor(options: PoolOptions) {
    this.#paths = poolPaths(options.directory)
    this.#poolId = options.poolId
    this.#images = new Images(this.#paths, termsOf(options), limits.imageFetchesMax)
    this.#imageLooks = new ImageLooks(this.#paths)
    this.#disks = new VmDisks(this.#paths, options.log)
    this.#looks = new BoundedLooks({ code: 'storage_inspection_failed', places: limits.poolLooksMax })
    const access = {
      paths: this.#paths,
      poolId: options.poolId,
      looks: this.#looks,
      ready: () => this.#ready(),
    }
    this.savedStates = new PoolSavedStates({ ...access, log: options.log })
    this.staging = new PoolStaging({ ...access, terms: options.packing ?? {} })
  }

  inspect(id: VmId, images: readonly ImageRef[]): Promise<StorageState> {
    return this.#looks.take(`inspecting the storage of VM ${id}`, () => this.#inspect(id, images))
  }

  async #inspect(id: VmId, images: readonly ImageRef[]): Promise<StorageState> {
    try {
      // The marker is read first and alone: if the pool hangs, only one thread hangs with it.
      await sightPool(this.#paths, this.#poolId)
      const [disk, seed, there] = await Promise.all([
        lookAtDisk(this.#paths, id),
        this.#inspectSeed(id),
        Promise.all(images.map(({ sha256 }) => ifThere(stat(this.#paths.image(sha256))))),
      ])
      const missingImages = images.filter((_, index) => there[index] === undefined).map(({ role }) => role)
      const unfitImages = await this.#imageLooks.unfit(
        images.filter((_, index) => there[index] !== undefined),
      )
      // This check comes after looking: if the pool went out of sight before, it fails, and nothing is reported absent.
      await verifyPool(this.#paths, this.#poolId)
      return { disk, seed, missingImages, unfitImages }
    } catch (error) {
      throw storageFault(error, `inspecting the storage of VM ${id}`, 'storage_inspection_failed')
    }
  }

  async ensureImage(
    sha256: Sha256,
    source: ImageSource,
    signal: AbortSignal,
    bound?: ImageBound,
  ): Promise<void> {
    await this.#ready()
    await this.#images.ensure(sha256, source, signal, bound)
  }

  checkImage(image: ImageRef): Promise<void> {
    return this.#imageLooks.check(image)
  }

  images(): Promise<readonly StoredImage[]> {
    return this.#looks.take('listing the images of the storage pool', () =>
      storedImages(this.#paths, this.#poolId),
    )
  }

  async removeImage(sha256: Sha256): Promise<void> {
    await this.#ready()
    await this.#images.remove(sha256)
  }

  async ensureDisk(disk: DiskSpec, signal: AbortSignal): Promise<void> {
    await this.#ready()
    await this.#images.using(disk.rootfsSha256, () => this.#disks.ensureDisk(disk, signal))
  }

  async ensureSeed(id: VmId, userId: UserId, seed: Seed): Promise<void> {
    await this.#ready()
    await this.#disks.ensureSeed(id, userId, seed)
  }

  async remove(id: VmId): Promise<void> {
    await this.#ready()
    const removed = join(this.#paths.tmp, `removed-${randomUUID()}`)
    try {
      this.savedStates.forget(id)
      if ((await ifThere(stat(this.#paths.vm(id)))) === undefined) return
      // Moves it away in one step, so that half a removal is never seen. The sweep at start removes what a crash
      // leaves.
      await rename(this.#paths.vm(id), removed)
      await sync(this.#paths.disks)
      await removeTree(removed)
    } catch (error) {
      throw storageFault(error, `removing the disks of VM ${id}`)
    }
  }

  list(): Promise<readonly VmId[]> {
    return this.#looks.take('listing the disks of the storage pool', () => this.#list())
  }

  async #list(): Promise<readonly VmId[]> {
    try {
      const names = await readdir(this.#paths.disks)
      await verifyPool(this.#paths, this.#poolId)
      return names.map(parseVmId).filter((id) => id !== undefined)
    } catch (error) {
      throw storageFault(error, 'listing the disks of the storage pool', 'storage_inspection_failed')
    }
  }

  files(id: VmId, images: readonly ImageRef[]): VmFiles {
    const kernel = images.find(({ role }) => role === 'kernel')
    const initrd = images.find(({ role }) => role === 'initrd')
    assert(kernel !== undefined, `VM ${id} has no kernel image`)
    return {
      disk: this.#paths.disk(id),
      seed: this.#paths.seed(id),
      kernel: this.#paths.image(kernel.sha256),
      ...(initrd === undefined ? {} : { initrd: this.#paths.image(initrd.sha256) }),
    }
  }

  async #inspectSeed(id: VmId): Promise<SeedState> {
    const path = this.#paths.seed(id)
    const [name, target] = await Promise.all([ifThere(readlink(path)), ifThere(stat(path))])
    const digest = seedDigestOf(name ?? '')
    if (digest === undefined || target === undefined) return { kind: 'absent' }
    const usableBy = onlyUser(target, SEED_MODE)
    return { kind: 'present', digest, ...(usableBy === undefined ? {} : { usableBy }) }
  }

  /** Must precede every change: checks that the pool is in sight, and removes what an earlier run left unfinished. */
  async #ready(): Promise<void> {
    await this.#looks.take('looking for the storage pool', () => verifyPool(this.#paths, this.#poolId))
    this.#swept ??= this.#sweep()
    await this.#swept
  }

  async #sweep(): Promise<void> {
    try {
      for (const name of await readdir(this.#paths.tmp)) {
        const path = join(this.#paths.tmp, name)
        if (name.startsWith(DISCARDED_PREFIX)) await emptySaved(path)
        await removeTree(path)
      }
    } catch (error) {
      this.#swept = undefined
      throw storageFault(error, 'clearing what was left half-made in the storage pool')
    }
  }
}

function termsOf({
  localImagesDirectory,
  outbound,
  bounds,
  reserveMib = 0,
  imageThread = imageThreadBesideThis,
}: PoolOptions): FetchTerms {
  return {
    ...(outbound === undefined ? {} : { outbound }),
    ...(localImagesDirectory === undefined ? {} : { localDirectory: localImagesDirectory }),
    bytesMax: limits.imageBytesMax,
    reserveBytes: reserveMib * 1024 * 1024,
    stallMs: limits.imageStallMs,
    totalMs: limits.imageFetchMs,
    thread: imageThread,
    ...bounds,
  }
}
