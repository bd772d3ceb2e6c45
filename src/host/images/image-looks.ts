import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import {
  IMAGE_LOOK_BYTES,
  isUnfit,
  lookOfImage,
  unfitWords,
  unreadableKernel,
} from '../../core/images/image-look.ts'
import type { ImageLook, KernelFormat, StorageState } from '../../core/world/world.ts'
import { given } from '../../lib/given.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { ImageRef } from '../../ports/storage.ts'
import { open } from '../files/pool-files.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'

/**
 * Detects what the images of a pool look like. It reads each image once, because the content of a digest never changes.
 */
export class ImageLooks {
  readonly #paths: PoolPaths
  readonly #known = new Map<Sha256, ImageLook | undefined>()
  /** Reads under way, which VMs that are inspected at the same time share. */
  readonly #reads = new Map<Sha256, Promise<ImageLook | undefined>>()

  constructor(paths: PoolPaths) {
    this.#paths = paths
  }

  /** Returns those of the given images in the pool that cannot play their part, and the look of the kernel. */
  async inspect(images: readonly ImageRef[]): Promise<Pick<StorageState, 'unfitImages' | 'kernelLook'>> {
    const looks = await Promise.all(images.map(({ sha256 }) => this.#look(sha256)))
    const unfitImages = images.flatMap(({ role, sha256 }, index) => {
      const look = looks[index]
      return look !== undefined && isUnfit(role, look) ? [{ role, sha256, look }] : []
    })
    const kernelLook = looks[images.findIndex(({ role }) => role === 'kernel')]
    return { unfitImages, ...given({ kernelLook }) }
  }

  /** Throws HostFault `image_unsuitable` if the image cannot play its part, or is a kernel of another format. */
  async check(image: ImageRef, formats: readonly KernelFormat[]): Promise<void> {
    const { unfitImages, kernelLook: look } = await this.inspect([image])
    const because =
      unfitImages.length > 0
        ? unfitWords(unfitImages)
        : unreadableKernel({ sha256: image.sha256, look }, formats)
    if (because !== undefined) throw new HostFault('image_unsuitable', because)
  }

  async #look(sha256: Sha256): Promise<ImageLook | undefined> {
    if (this.#known.has(sha256)) return this.#known.get(sha256)
    let read = this.#reads.get(sha256)
    if (read === undefined) {
      read = this.#read(sha256).finally(() => this.#reads.delete(sha256))
      this.#reads.set(sha256, read)
    }
    return read
  }

  async #read(sha256: Sha256): Promise<ImageLook | undefined> {
    const head = await this.#head(sha256)
    if (head === undefined) return undefined
    const look = lookOfImage(head)
    if (this.#known.size >= limits.imageLooksMax) this.#known.clear()
    this.#known.set(sha256, look)
    return look
  }

  /**
   * Returns the first bytes; undefined if the image cannot be read, because whatever needs its content will report
   * that.
   */
  async #head(sha256: Sha256): Promise<Uint8Array | undefined> {
    try {
      return await readStart(this.#paths.image(sha256))
    } catch {
      return undefined
    }
  }
}

async function readStart(path: string): Promise<Uint8Array> {
  const file = await open(path, 'r')
  try {
    const start = Buffer.alloc(IMAGE_LOOK_BYTES)
    const { bytesRead } = await file.read(start, 0, start.length, 0)
    return start.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}
