import { createHash } from 'node:crypto'
import { zstdDecompressSync } from 'node:zlib'
import { HostFault } from '../../src/core/errors.ts'
import { given } from '../../src/lib/given.ts'
import type {
  DiskState,
  ImageLook,
  KernelFormat,
  StorageState,
  UnfitImage,
} from '../../src/core/world/world.ts'
import { isUnfit, lookOfImage, unfitWords, unreadableKernel } from '../../src/core/images/image-look.ts'
import type { ImageSource } from '../../src/core/outbound/image-source.ts'
import type { SeedDisk } from '../../src/core/disks/seed.ts'
import { SignedUrl } from '../../src/core/outbound/signed-url.ts'
import { whyForeign } from '../../src/core/world/world.ts'
import type { DiskNote } from '../../src/core/disks/disk-note.ts'
import type { Sha256, UserId, VmId } from '../../src/core/ids.ts'
import type {
  DiskSpec,
  ImageBound,
  ImageRef,
  Storage,
  StoredImage,
  VmFiles,
} from '../../src/ports/storage.ts'
import { abortable } from '../../src/lib/abortable.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type StorageMethod = Exclude<keyof Storage, 'files'>

/** A disk without this note was made by an older daemon, or by a person. */
type Disk = { readonly sizeMib: number; readonly userId: UserId; readonly note?: DiskNote }

const MIB = 1024 * 1024
/** Bytes that a reader of an image gets at once. */
const CHUNK_BYTES = 64 * 1024

type Image = { readonly content: Uint8Array; readonly fetchedAtMs: number }

/** A storage pool in memory, with sources of images beside it. */
export class FakeStorage implements Storage {
  /** Content that a pool on a disk keeps over a restart of the daemon. */
  readonly imageFiles = new Map<Sha256, Image>()
  readonly disks = new Map<VmId, Disk>()
  readonly seeds = new Map<VmId, SeedDisk & { readonly usableBy: UserId }>()
  /** Number of listings of the images. */
  imageListings = 0
  now: () => number = () => 0
  /** Reports that the VM's directory was removed, with other drivers' files in it. */
  onRemove: (id: VmId) => void = () => {}
  /** Reports that the pool was hidden, or came back. */
  onSight: (inSight: boolean) => void = () => {}
  readonly #sources = new Map<string, Uint8Array>()
  readonly #faults = new FaultSwitch<StorageMethod>()
  #inSight = true

  failNext(method: StorageMethod, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** Lets the next call wait until the returned function is called, or until it is aborted. */
  holdNext(method: StorageMethod): () => void {
    return this.#faults.holdNext(method)
  }

  /** Puts an image of that many MiB into the pool. */
  putImage(sha256: Sha256, sizeMib: number): void {
    this.imageFiles.set(sha256, { content: new Uint8Array(sizeMib * MIB), fetchedAtMs: this.now() })
  }

  /** Puts an image at a URL. */
  offer(content: Uint8Array, url = `https://images.example.org/${this.#sources.size}`): ImageSource {
    this.#sources.set(url, content)
    return { url: new SignedUrl(url) }
  }

  /** Hides the pool, as an unmount does, or brings it back. */
  setInSight(inSight: boolean): void {
    this.#inSight = inSight
    this.onSight(inSight)
  }

  inspect(id: VmId, images: readonly ImageRef[]): Promise<StorageState> {
    return this.#faults.run('inspect', () => {
      this.#look()
      const disk = this.disks.get(id)
      const seed = this.seeds.get(id)
      return {
        disk: disk === undefined ? { kind: 'absent' } : stateOf(disk),
        seed:
          seed === undefined
            ? { kind: 'absent' }
            : { kind: 'present', digest: seed.digest, usableBy: seed.usableBy },
        missingImages: images.filter(({ sha256 }) => !this.imageFiles.has(sha256)).map(({ role }) => role),
        unfitImages: images.flatMap((image) => this.#unfit(image)),
        ...given({ kernelLook: this.#kernelLook(images) }),
      }
    })
  }

  checkImage(image: ImageRef, formats: readonly KernelFormat[]): Promise<void> {
    return this.#faults.run('checkImage', () => {
      const unreadable = unreadableKernel({ sha256: image.sha256, look: this.#kernelLook([image]) }, formats)
      if (unreadable !== undefined) throw new HostFault('image_unsuitable', unreadable)
      const unfit = this.#unfit(image)
      if (unfit.length > 0) throw new HostFault('image_unsuitable', unfitWords(unfit))
    })
  }

  #kernelLook(images: readonly ImageRef[]): ImageLook | undefined {
    const kernel = images.find(({ role }) => role === 'kernel')
    return kernel === undefined ? undefined : this.#lookOf(kernel)
  }

  #lookOf({ sha256 }: ImageRef): ImageLook | undefined {
    const content = this.imageFiles.get(sha256)?.content
    return content && lookOfImage(content)
  }

  #unfit(image: ImageRef): UnfitImage[] {
    const { role, sha256 } = image
    const look = this.#lookOf(image)
    return look !== undefined && isUnfit(role, look) ? [{ role, sha256, look }] : []
  }

  ensureImage(sha256: Sha256, source: ImageSource, signal: AbortSignal, bound?: ImageBound): Promise<void> {
    const fetch = (): void => {
      this.#look()
      if (this.imageFiles.has(sha256)) return
      const doing = `fetching image ${sha256}`
      const sent = this.#sources.get(source.url.reveal())
      if (sent === undefined) throw new HostFault('image_unavailable', doing)
      this.#store(sha256, decoded(sent, doing), bound)
    }
    return this.#faults.run('ensureImage', fetch, signal)
  }

  #store(sha256: Sha256, content: Uint8Array, bound: ImageBound | undefined): void {
    const doing = `fetching image ${sha256}`
    if (bound !== undefined && content.length > bound.bytesMax) throw new HostFault(bound.excess, doing)
    const digest = createHash('sha256').update(content).digest('hex')
    if (digest !== sha256) throw new HostFault('image_integrity_failed', doing)
    this.imageFiles.set(sha256, { content, fetchedAtMs: this.now() })
  }

  async ensureImageFrom(
    sha256: Sha256,
    body: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
    bound?: ImageBound,
  ): Promise<void> {
    const chunks = body[Symbol.asyncIterator]()
    const take = async (): Promise<void> => {
      this.#look()
      if (this.imageFiles.has(sha256)) return
      const come: Uint8Array[] = []
      for (;;) {
        const next = await abortable(chunks.next(), signal)
        if (next.done === true) break
        come.push(Uint8Array.from(next.value))
      }
      this.#look()
      this.#store(sha256, Buffer.concat(come), bound)
    }
    try {
      await this.#faults.run('ensureImageFrom', take, signal)
    } finally {
      chunks.return?.().catch(() => {})
    }
  }

  async *readImage(sha256: Sha256, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
    const content = await this.#faults.run('readImage', () => this.#contentOf(sha256), signal)
    for (let at = 0; at < content.length; at += CHUNK_BYTES) {
      signal.throwIfAborted()
      yield content.subarray(at, at + CHUNK_BYTES)
    }
  }

  #contentOf(sha256: Sha256): Uint8Array {
    this.#look()
    const image = this.imageFiles.get(sha256)
    if (image === undefined) throw new HostFault('storage_failed', `reading image ${sha256}`)
    return image.content
  }

  images(): Promise<readonly StoredImage[]> {
    this.imageListings += 1
    return this.#faults.run('images', () => {
      this.#look()
      return [...this.imageFiles]
        .map(([sha256, { content, fetchedAtMs }]) => ({ sha256, sizeBytes: content.length, fetchedAtMs }))
        .toSorted((a, b) => (a.sha256 < b.sha256 ? -1 : 1))
    })
  }

  removeImage(sha256: Sha256, mayRemove: () => boolean): Promise<boolean> {
    return this.#faults.run('removeImage', () => {
      this.#look()
      const goes = mayRemove()
      if (goes) this.imageFiles.delete(sha256)
      return goes
    })
  }

  ensureDisk(disk: DiskSpec, signal: AbortSignal): Promise<void> {
    return this.#faults.run('ensureDisk', () => this.#makeDisk(disk, this.disks.get(disk.id)), signal)
  }

  rebuildDisk(disk: DiskSpec, signal: AbortSignal): Promise<void> {
    const make = (): void => {
      const found = this.disks.get(disk.id)
      if (found !== undefined) checkOwner(disk, found)
      const isOld = found !== undefined && (found.note?.rebuild ?? 0) < (disk.rebuild ?? 0)
      this.#makeDisk(disk, isOld ? undefined : found)
    }
    return this.#faults.run('rebuildDisk', make, signal)
  }

  #makeDisk(disk: DiskSpec, found: Disk | undefined): void {
    const { id, userId, sizeMib, rootfsSha256, mark, rebuild } = disk
    this.#look()
    const doing = `making the disk of VM ${id}`
    const image = this.imageFiles.get(rootfsSha256)
    if (found === undefined) {
      if (image === undefined) throw new HostFault('storage_failed', doing)
      if (image.content.length > sizeMib * MIB) throw new HostFault('disk_smaller_than_image', doing)
    }
    if (found !== undefined) checkOwner(disk, found)
    const made = { mark, ...given({ rebuild }) }
    const note = found === undefined ? { ...made, rootfsSha256 } : (found.note ?? made)
    this.disks.set(id, { sizeMib: Math.max(found?.sizeMib ?? 0, sizeMib), userId, note })
  }

  ensureSeed(id: VmId, usableBy: UserId, seed: SeedDisk): Promise<void> {
    return this.#faults.run('ensureSeed', () => {
      this.#look()
      this.seeds.set(id, { ...seed, usableBy })
    })
  }

  remove(id: VmId): Promise<void> {
    return this.#faults.run('remove', () => {
      this.#look()
      this.disks.delete(id)
      this.seeds.delete(id)
      this.onRemove(id)
    })
  }

  list(): Promise<readonly VmId[]> {
    return this.#faults.run('list', () => {
      this.#look()
      return [...new Set([...this.disks.keys(), ...this.seeds.keys()])]
    })
  }

  files(id: VmId, images: readonly ImageRef[]): VmFiles {
    const pathOf = (role: string): string | undefined => {
      const image = images.find((ref) => ref.role === role)
      return image === undefined ? undefined : `/pool/images/${image.sha256}`
    }
    const initrd = pathOf('initrd')
    return {
      disk: `/pool/disks/${id}/disk.raw`,
      seed: `/pool/disks/${id}/seed.iso`,
      kernel: pathOf('kernel') ?? '/pool/images/none',
      ...(initrd === undefined ? {} : { initrd }),
    }
  }

  #look(): void {
    if (!this.#inSight) throw new HostFault('storage_inspection_failed', 'looking for the storage pool')
  }
}

function checkOwner({ id, mark, adopts = false }: DiskSpec, { note }: Disk): void {
  const isOwn =
    note === undefined ? adopts : whyForeign(note.mark, { id, ...mark }, mark.storeId) === undefined
  if (!isOwn) throw new HostFault('disk_foreign', `making the disk of VM ${id}`)
}

const stateOf = ({ sizeMib, userId, note }: Disk): DiskState => ({
  kind: 'present',
  sizeMib,
  ...(note === undefined ? {} : { note: { rootfsSha256: undefined, ...note } }),
  usableBy: userId,
})

/** The magic number of a zstd frame (RFC 8878, 3.1.1). */
const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

function decoded(sent: Uint8Array, doing: string): Uint8Array {
  if (!ZSTD.equals(sent.subarray(0, ZSTD.length))) return sent
  try {
    return zstdDecompressSync(sent)
  } catch {
    throw new HostFault('image_integrity_failed', doing)
  }
}
