import type { KernelFormat, StorageState, VmMark } from '../core/world/world.ts'
import type { ImageSource } from '../core/outbound/image-source.ts'
import type { SeedDisk } from '../core/disks/seed.ts'
import type { ImageRole } from '../core/desired.ts'
import type { Sha256, UserId, VmId } from '../core/ids.ts'

/** Paths of a VM's files, for the monitor's command line. */
export type VmFiles = {
  readonly disk: string
  readonly seed: string
  readonly kernel: string
  readonly initrd?: string
}

export type ImageRef = { readonly role: ImageRole; readonly sha256: Sha256 }

/** The storage pool: images by digest, and each VM's disk and seed. Every method throws HostFault. */
export interface Storage {
  /** Fails if the pool's marker or mount is missing; never reports "absent" if the pool could not be inspected. */
  inspect(id: VmId, images: readonly ImageRef[]): Promise<StorageState>
  /**
   * Fetches an image, verifies it while it streams, and publishes it by rename. Several requests for one digest share
   * one download from each server; the largest bound counts. The first download that is whole serves all of them.
   * Throws the fault of the bound as soon as the image exceeds it,
   * and `storage_full` before the pool loses its reserve.
   */
  ensureImage(sha256: Sha256, source: ImageSource, signal: AbortSignal, bound?: ImageBound): Promise<void>
  /**
   * Takes an image from another host. As `ensureImage`: if the image comes from another host already, this waits for
   * it, and reads its own `body` only if that fails. The bytes are stored as they come, because they are of an image as
   * another pool has it. `body` is closed in any case. It throws HostFault, and must end by itself when nothing comes.
   */
  ensureImageFrom(
    sha256: Sha256,
    body: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
    bound?: ImageBound,
  ): Promise<void>
  /**
   * Reads an image as the pool has it: what is stored has the digest, also if it was fetched packed. Each chunk is
   * valid until the next one is requested. The image is not removed meanwhile.
   */
  readImage(sha256: Sha256, signal: AbortSignal): AsyncIterable<Uint8Array>
  /**
   * Throws `image_unsuitable` if the image in the pool is plainly of another kind than its role needs, or a kernel of
   * none of the given formats.
   */
  checkImage(image: ImageRef, formats: readonly KernelFormat[]): Promise<void>
  /** Lists every image in the pool, in the order of their digests. Fails if the pool cannot be read. */
  images(): Promise<readonly StoredImage[]>
  /**
   * Removes an image; a missing image is not a failure. Returns false if the image was left: it is being fetched or
   * read, or `mayRemove`, which is asked at the moment of the removal, does not allow it.
   */
  removeImage(sha256: Sha256, mayRemove: () => boolean): Promise<boolean>
  /**
   * Ensures a clone of the rootfs image, of at least `sizeMib`, that `userId` can use, and a note of its owner. An
   * existing disk is never replaced or made smaller; a disk of another VM is `disk_foreign`.
   */
  ensureDisk(disk: DiskSpec, signal: AbortSignal): Promise<void>
  /**
   * Ensures as `ensureDisk` that the VM has a disk of this rebuild. It replaces an older disk by rename, when the new
   * one is whole and durable; no monitor may have the disk open. A failure before that leaves the old disk. After a
   * loss of power, the note names the disk that is there, or an earlier one that must be replaced again.
   */
  rebuildDisk(disk: DiskSpec, signal: AbortSignal): Promise<void>
  ensureSeed(id: VmId, userId: UserId, seed: SeedDisk): Promise<void>
  /** Removes disk and seed. */
  remove(id: VmId): Promise<void>
  /** Lists the ids that have a disk directory. */
  list(): Promise<readonly VmId[]>
  files(id: VmId, images: readonly ImageRef[]): VmFiles
}

/** How long an image may become when unpacked, and the fault of a longer one. */
export type ImageBound = {
  readonly bytesMax: number
  readonly excess: 'disk_smaller_than_image' | 'image_too_large'
}

export type StoredImage = {
  readonly sha256: Sha256
  readonly sizeBytes: number
  readonly fetchedAtMs: number
}

export type DiskSpec = {
  readonly id: VmId
  readonly userId: UserId
  readonly sizeMib: number
  readonly rootfsSha256: Sha256
  /** Written beside the disk before the disk exists. */
  readonly mark: VmMark
  /** Number of the rebuild that makes the disk; absent: the creation does. */
  readonly rebuild?: number
  /** Whether a disk without a note belongs to this VM. */
  readonly adopts?: boolean
}
