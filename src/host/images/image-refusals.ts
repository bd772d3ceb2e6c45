import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { ImageBound } from '../../ports/storage.ts'
import { statfs } from '../files/pool-files.ts'
import { shortOfRoom } from './store-content.ts'

/** An image that was larger than a VM accepts. */
type Excess = {
  /** Absent if another host sent it. */
  readonly url: string | undefined
  readonly bytesMax: number
  readonly untilMs: number
  readonly fault: HostFault
}

/**
 * Remembers fetches that would fail again as the last one did, so that they are not repeated in full. This applies to
 * images that are too large, and to images that the pool has no room for. A restart clears it.
 */
export class ImageRefusals {
  readonly #directory: string
  readonly #reserveBytes: number
  readonly #nowMs: () => number
  readonly #excesses = new Map<Sha256, Excess>()
  /** How many bytes of an image were stored when the pool reached its reserve. */
  readonly #short = new Map<Sha256, number>()

  /** @param directory the pool's directory, or one inside it */
  constructor(directory: string, reserveBytes: number, nowMs: () => number = () => performance.now()) {
    this.#directory = directory
    this.#reserveBytes = reserveBytes
    this.#nowMs = nowMs
  }

  /** Throws the fault with which the fetch would fail. */
  async check(sha256: Sha256, url: string | undefined, bound: ImageBound): Promise<void> {
    const excess = this.#excesses.get(sha256)
    if (excess !== undefined && excess.url === url && bound.bytesMax <= excess.bytesMax) {
      if (this.#nowMs() < excess.untilMs) throw excess.fault
    }
    if (this.#reserveBytes === 0) return
    const { bavail, bsize } = await statfs(this.#directory)
    const room = bavail * bsize - this.#reserveBytes
    if (room < (this.#short.get(sha256) ?? 0)) throw shortOfRoom(this.#reserveBytes)
  }

  /** @param storedBytes how many bytes of the image were stored when its fetch failed */
  note(
    fault: HostFault,
    fetch: { sha256: Sha256; url: string | undefined; bound: ImageBound; storedBytes: number },
  ): void {
    const { sha256, url, bound, storedBytes } = fetch
    this.#forgetOld()
    if (fault.code === 'storage_full') this.#short.set(sha256, storedBytes)
    if (fault.code !== bound.excess) return
    const untilMs = this.#nowMs() + limits.imageExcessMs
    this.#excesses.set(sha256, { url, bytesMax: bound.bytesMax, untilMs, fault })
  }

  forget(sha256: Sha256): void {
    this.#excesses.delete(sha256)
    this.#short.delete(sha256)
  }

  #forgetOld(): void {
    const nowMs = this.#nowMs()
    for (const [sha256, { untilMs }] of this.#excesses) if (untilMs <= nowMs) this.#excesses.delete(sha256)
    const [oldest] = this.#short.keys()
    if (this.#short.size > limits.imagesShortMax && oldest !== undefined) this.#short.delete(oldest)
  }
}
