import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { ImageBound } from '../../ports/storage.ts'
import { statfs } from '../files/pool-files.ts'
import { MIB } from '../../lib/byte-units.ts'

/** A fetch that failed because of what came. */
type Refusal = {
  readonly url: string
  /** The size that was too small for it; absent if no size helps. */
  readonly bytesMax: number | undefined
  /** Whether the same failure is certain: a transfer that was cut may look like an image with another digest. */
  readonly isCertain: boolean
  readonly untilMs: number
  readonly fault: HostFault
}

/** A fetch that reached the reserve of the pool. */
type Short = {
  /** The room above the reserve that there was for the image. */
  readonly roomBytes: number
  readonly untilMs: number
}

/**
 * Remembers fetches that would fail again as the last one did, so that they are not repeated in full. This applies to
 * images that are too large, that twice were not what their digest says, and that the pool has no room for. A restart
 * clears it.
 */
export class ImageRefusals {
  readonly #directory: string
  readonly #reserveBytes: number
  readonly #nowMs: () => number
  readonly #refusals = new Map<Sha256, Refusal>()
  readonly #short = new Map<Sha256, Short>()

  /** @param directory the pool's directory, or one inside it */
  constructor(directory: string, reserveBytes: number, nowMs: () => number = () => performance.now()) {
    this.#directory = directory
    this.#reserveBytes = reserveBytes
    this.#nowMs = nowMs
  }

  /** Returns the room of the pool above its reserve, in bytes. Throws the fault with which the fetch would fail. */
  async check(sha256: Sha256, url: string | undefined, bound: ImageBound): Promise<number> {
    const refusal = this.#refusals.get(sha256)
    if (
      refusal?.isCertain === true &&
      refusal.url === url &&
      bound.bytesMax <= (refusal.bytesMax ?? Infinity)
    ) {
      if (this.#nowMs() < refusal.untilMs) throw refusal.fault
    }
    if (this.#reserveBytes === 0) return Infinity
    const { bavail, bsize } = await statfs(this.#directory)
    const room = bavail * bsize - this.#reserveBytes
    const short = this.#short.get(sha256)
    // Guests write and discard meanwhile, so some more room than before proves nothing.
    const hasMore = room >= (short?.roomBytes ?? 0) + limits.imageFetchesMax * limits.imageRoomStepBytes
    if (short !== undefined && !hasMore && this.#nowMs() < short.untilMs)
      throw stillShort(short.roomBytes, this.#reserveBytes)
    return room
  }

  /**
   * Notes a fetch that failed. What another host sent, without a URL, says nothing about what the next one sends.
   *
   * @param roomBytes the room above the reserve that there was for the image:
   * at most what {@link check} returned before
   */
  note(
    fault: HostFault,
    fetch: { sha256: Sha256; url: string | undefined; bound: ImageBound; roomBytes: number },
  ): void {
    const { sha256, url, bound, roomBytes } = fetch
    const nowMs = this.#nowMs()
    const untilMs = nowMs + limits.imageRefusedMs
    if (fault.code === 'storage_full') this.#keep(this.#short, sha256, { roomBytes, untilMs })
    const isExcess = fault.code === bound.excess
    if (url === undefined || !(isExcess || isDamage(fault, url))) return
    const before = this.#refusals.get(sha256)
    const isRepeated = before?.url === url && before?.fault.code === fault.code && nowMs < before.untilMs
    this.#keep(this.#refusals, sha256, {
      url,
      bytesMax: isExcess ? bound.bytesMax : undefined,
      isCertain: isExcess || isRepeated,
      untilMs,
      fault,
    })
  }

  forget(sha256: Sha256): void {
    this.#refusals.delete(sha256)
    this.#short.delete(sha256)
  }

  /** Keeps an entry as the newest, and forgets what is over and what is too many. */
  #keep<T extends { readonly untilMs: number }>(kept: Map<Sha256, T>, of: Sha256, entry: T): void {
    kept.delete(of)
    kept.set(of, entry)
    const nowMs = this.#nowMs()
    for (const [sha256, { untilMs }] of kept)
      if (untilMs <= nowMs || kept.size > limits.imagesRefusedMax) kept.delete(sha256)
  }
}

const stillShort = (roomBytes: number, reserveBytes: number): HostFault => {
  const [room, reserve] = [Math.max(0, Math.floor(roomBytes / MIB)), reserveBytes / MIB]
  const had = `the ${room} MiB that the pool had above its reserve of ${reserve} MiB`
  const cause = new Error(
    `${had} were too little for an earlier fetch of it, and there is not much more room now`,
  )
  return new HostFault('storage_full', 'looking for room', { cause })
}

/**
 * Returns whether a whole image was fetched over the network, and was another one. A local file costs nothing to try.
 */
const isDamage = ({ code }: HostFault, url: string): boolean =>
  code === 'image_integrity_failed' && !url.startsWith('file:')
