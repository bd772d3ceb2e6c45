import { limits } from '../../config/limits.ts'

/** A frame that waits for its guest. The frame of a held one is a view of the ring buffer. */
export type HeldFrame = {
  readonly ifindex: number
  /** Arrival time, on a clock that is never set. */
  readonly atNs: bigint
  readonly gsoSize: number
  /** Whether it counts as traffic, so that the guest is wanted. */
  readonly counts: boolean
  readonly frame: Uint8Array
}

/** Returns whether a frame has waited so long that it is useless to its sender. */
export const isTooOld = ({ atNs }: HeldFrame, nowNs: bigint): boolean =>
  Number(nowNs - atNs) / 1e6 > limits.heldFrameAgeMs

type Place = {
  held: HeldFrame
  /** The position in the ring buffer at which the record ends. */
  readonly end: number
  settled: boolean
  isCopy: boolean
}

/**
 * Holds frames that wait for their guests. The frames stay in the ring buffer for as long as possible, because the
 * buffer outlives the daemon. The ring can be released only from its start, so a settled frame waits for all frames
 * before it.
 *
 * The kernel's program limits how much is held for each guest. {@link HeldFrames.overfull} limits the copies of all.
 */
export class HeldFrames {
  readonly #waiting = new Map<number, Place[]>()
  /** Places that are not released yet, in the order of the ring. */
  #inRing: Place[] = []
  /** Bytes of the copies that wait, by device. */
  readonly #copied = new Map<number, number>()

  add(held: HeldFrame, end: number): void {
    const place = { held, end, settled: false, isCopy: false }
    this.#inRing.push(place)
    const places = this.#waiting.get(held.ifindex)
    if (places === undefined) this.#waiting.set(held.ifindex, [place])
    else places.push(place)
  }

  /** Notes a record that belongs to no guest. */
  skip(end: number): void {
    const nothing = { ifindex: 0, atNs: 0n, gsoSize: 0, counts: false, frame: new Uint8Array() }
    this.#inRing.push({ held: nothing, end, settled: true, isCopy: false })
  }

  devices(): readonly number[] {
    return [...this.#waiting.keys()]
  }

  count(ifindex: number): number {
    return this.#waiting.get(ifindex)?.length ?? 0
  }

  bytes(ifindex: number): number {
    return (this.#waiting.get(ifindex) ?? []).reduce((sum, { held }) => sum + held.frame.length, 0)
  }

  /** Returns the frame of a device that has waited longest. */
  first(ifindex: number): HeldFrame | undefined {
    return this.#waiting.get(ifindex)?.[0]?.held
  }

  /** Returns the frames that wait for a device, in order. */
  waiting(ifindex: number): readonly HeldFrame[] {
    return (this.#waiting.get(ifindex) ?? []).map(({ held }) => held)
  }

  /** Removes the first frame of a device, because it was delivered or dropped. */
  removeFirst(ifindex: number): void {
    const places = this.#waiting.get(ifindex)
    const place = places?.shift()
    if (place?.isCopy === true) this.#countCopied(ifindex, -place.held.frame.length)
    if (place !== undefined) place.settled = true
    if (places?.length === 0) this.#waiting.delete(ifindex)
  }

  /**
   * Returns the position up to which the ring can be released since the last call; undefined if nothing more can be.
   */
  release(): number | undefined {
    const kept = this.#inRing.findIndex(({ settled }) => !settled)
    const gone = this.#inRing.splice(0, kept === -1 ? this.#inRing.length : kept)
    return gone.at(-1)?.end
  }

  /** Copies the waiting frames, so that the whole ring can be released. */
  copyOut(): void {
    for (const place of this.#inRing) {
      if (place.settled) continue
      const { ifindex, frame } = place.held
      place.held = { ...place.held, frame: Uint8Array.from(frame) }
      place.isCopy = true
      this.#countCopied(ifindex, frame.length)
    }
    const last = this.#inRing.at(-1)
    this.#inRing = []
    if (last !== undefined) this.skip(last.end)
  }

  /**
   * Returns the device with the most bytes of copies if all copies together have more than `bytesMax`. Its first frame
   * is a copy. So a guest that has little loses nothing to others that have much.
   */
  overfull(bytesMax: number): number | undefined {
    let sum = 0
    let most: { readonly ifindex: number; readonly bytes: number } | undefined
    for (const [ifindex, bytes] of this.#copied) {
      sum += bytes
      if (bytes > (most?.bytes ?? 0)) most = { ifindex, bytes }
    }
    return sum > bytesMax ? most?.ifindex : undefined
  }

  #countCopied(ifindex: number, more: number): void {
    const bytes = (this.#copied.get(ifindex) ?? 0) + more
    if (bytes > 0) this.#copied.set(ifindex, bytes)
    else this.#copied.delete(ifindex)
  }
}
