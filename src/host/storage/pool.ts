import { limits } from '../../config/limits.ts'
import type { KernelFormat, StorageState } from '../../core/world/world.ts'
import { parseDiskNote } from '../../core/disks/disk-note.ts'
import type { ImageSource } from '../../core/outbound/image-source.ts'
import type { SeedDisk } from '../../core/disks/seed.ts'
import type { Sha256, UserId, VmId } from '../../core/ids.ts'
import { assert } from '../../lib/assert.ts'
import { SharedLook } from '../../lib/shared-look.ts'
import type { Log } from '../../log/log.ts'
import type { DiskSpec, ImageBound, ImageRef, Storage, StoredImage, VmFiles } from '../../ports/storage.ts'
import { accessPool } from '../pool/pool-access.ts'
import type { PoolAccess } from '../pool/pool-access.ts'
import type { Outbound } from '../outbound/outbound-request.ts'
import type { FetchTerms } from '../images/fetch-image.ts'
import { imageThreadBesideThis } from '../images/image-writer.ts'
import { closeChunks } from '../images/image-body.ts'
import { ImageLooks } from '../images/image-looks.ts'
import { Images, listImages } from '../images/images.ts'
import { lookAtDisk, lookAtSeed } from '../disks/look-at-disk.ts'
import { KnownFiles } from '../files/known-files.ts'
import { readdir } from '../files/pool-files.ts'
import { ifThere } from '../files/storage-fault.ts'
import { PoolIncomingDisks } from '../rounds/incoming-disks.ts'
import { PoolRounds } from '../rounds/pool-rounds.ts'
import { PoolSavedStates } from '../saved/saved-states.ts'
import { listVmDirectories, removeVmDirectory } from '../pool/vm-directory.ts'
import type { ThreadSource } from '../threads/task-thread.ts'
import { PoolStaging } from '../staging/pool-staging.ts'
import type { PackTerms } from '../staging/pool-staging.ts'
import { VmDisks } from '../disks/vm-disks.ts'
import { MIB } from '../../lib/byte-units.ts'
import { given } from '../../lib/given.ts'

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
  readonly #access: PoolAccess
  readonly #images: Images
  readonly #imageLooks: ImageLooks
  /** VMs that are inspected at the same time share a listing, because most VMs of a host have the same images. */
  readonly #publishedImages: SharedLook<ReadonlySet<string>>
  readonly #disks: VmDisks
  /** The notes beside disks. */
  readonly #notes = new KnownFiles(parseDiskNote, ({ mark }) => mark.storeId !== undefined)
  /** The saved states of guests, beside their disks. */
  readonly savedStates: PoolSavedStates
  /** The snapshots of disks, until they are sent. */
  readonly staging: PoolStaging
  /** Rounds of disks that leave this host. */
  readonly rounds: PoolRounds
  /** Disks that come from other hosts. */
  readonly incomingDisks: PoolIncomingDisks

  constructor(options: PoolOptions) {
    const { directory, poolId, log, packing = {} } = options
    this.#access = accessPool(directory, poolId)
    const { paths } = this.#access
    this.#images = new Images(paths, termsOf(options), limits.imageFetchesMax)
    this.#imageLooks = new ImageLooks(paths)
    this.#publishedImages = new SharedLook(async () => new Set(await readdir(paths.images)))
    this.#disks = new VmDisks(paths, log)
    this.savedStates = new PoolSavedStates({ ...this.#access, log })
    this.staging = new PoolStaging({ ...this.#access, terms: packing })
    this.rounds = new PoolRounds(this.#access)
    this.incomingDisks = new PoolIncomingDisks(this.#access)
  }

  inspect(id: VmId, images: readonly ImageRef[]): Promise<StorageState> {
    const { paths, looks, verify } = this.#access
    return looks.take(`inspecting the storage of VM ${id}`, async () => {
      await verify()
      const [disk, seed, published] = await Promise.all([
        lookAtDisk(paths, id, ifThere(this.#notes.read(paths.diskNote(id)))),
        lookAtSeed(paths, id),
        this.#publishedImages.take(),
      ])
      const missingImages = images.filter(({ sha256 }) => !published.has(sha256)).map(({ role }) => role)
      const seen = await this.#imageLooks.inspect(images.filter(({ sha256 }) => published.has(sha256)))
      // This check comes after looking: if the pool went out of sight before, it fails, and nothing is reported absent.
      await verify()
      return { disk, seed, missingImages, ...seen }
    })
  }

  async ensureImage(
    sha256: Sha256,
    source: ImageSource,
    signal: AbortSignal,
    bound?: ImageBound,
  ): Promise<void> {
    await this.#access.ready()
    await this.#images.ensure(sha256, { kind: 'url', url: source.url }, signal, bound)
  }

  async ensureImageFrom(
    sha256: Sha256,
    body: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
    bound?: ImageBound,
  ): Promise<void> {
    try {
      await this.#access.ready()
    } catch (error) {
      closeChunks(body[Symbol.asyncIterator]())
      throw error
    }
    await this.#images.ensureFrom(sha256, body, signal, bound)
  }

  async *readImage(sha256: Sha256, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const { looks, verify } = this.#access
    signal.throwIfAborted()
    await looks.take(`reading image ${sha256}`, verify)
    yield* this.#images.read(sha256, signal)
  }

  checkImage(image: ImageRef, formats: readonly KernelFormat[]): Promise<void> {
    return this.#imageLooks.check(image, formats)
  }

  images(): Promise<readonly StoredImage[]> {
    return listImages(this.#access)
  }

  async removeImage(sha256: Sha256, mayRemove: () => boolean): Promise<boolean> {
    await this.#access.ready()
    return this.#images.remove(sha256, mayRemove)
  }

  async ensureDisk(disk: DiskSpec, signal: AbortSignal): Promise<void> {
    await this.#access.ready()
    await this.#images.using(disk.rootfsSha256, () => this.#disks.ensureDisk(disk, signal))
  }

  async rebuildDisk(disk: DiskSpec, signal: AbortSignal): Promise<void> {
    await this.#access.ready()
    await this.#images.using(disk.rootfsSha256, () => this.#disks.rebuildDisk(disk, signal))
  }

  async ensureSeed(id: VmId, userId: UserId, seed: SeedDisk): Promise<void> {
    await this.#access.ready()
    await this.#disks.ensureSeed(id, userId, seed)
  }

  async remove(id: VmId): Promise<void> {
    await this.#access.ready()
    const { paths } = this.#access
    try {
      await removeVmDirectory(paths, id)
    } finally {
      this.savedStates.forget(id)
      this.#notes.forget(paths.diskNote(id))
    }
  }

  list(): Promise<readonly VmId[]> {
    return listVmDirectories(this.#access)
  }

  files(id: VmId, images: readonly ImageRef[]): VmFiles {
    const kernel = images.find(({ role }) => role === 'kernel')
    const initrd = images.find(({ role }) => role === 'initrd')
    assert(kernel !== undefined, `VM ${id} has no kernel image`)
    return {
      disk: this.#access.paths.disk(id),
      seed: this.#access.paths.seed(id),
      kernel: this.#access.paths.image(kernel.sha256),
      ...(initrd === undefined ? {} : { initrd: this.#access.paths.image(initrd.sha256) }),
    }
  }
}

function termsOf({
  localImagesDirectory,
  outbound,
  bounds,
  reserveMib = 0,
  imageThread = imageThreadBesideThis,
  log,
}: PoolOptions): FetchTerms {
  return {
    ...given({ outbound, localDirectory: localImagesDirectory }),
    bytesMax: limits.imageBytesMax,
    reserveBytes: reserveMib * MIB,
    stallMs: limits.imageStallMs,
    totalMs: limits.imageFetchMs,
    thread: imageThread,
    log,
    ...bounds,
  }
}
