/** A frame that the kernel's program held, as it stands in the ring buffer. */
export type HeldFrame = {
  readonly ifindex: number
  /** When it came, on a clock that is never set. */
  readonly atNs: bigint
  readonly gsoSize: number
  readonly frame: Uint8Array
}

type Place = {
  held: HeldFrame
  /** Where it ends in the ring buffer. */
  readonly end: number
  settled: boolean
}

/**
 * Frames that wait for their guests, in the ring buffer for as long as possible: what is there outlives the daemon. The
 * ring can only be let go of from its start, so what is settled waits for what is before it.
 *
 * What is held of each guest, the kernel's program bounds.
 */
export class HeldFrames {
  readonly #waiting = new Map<number, Place[]>()
  /** Not let go of, in the order of the ring. */
  #inRing: Place[] = []

  add(held: HeldFrame, end: number): void {
    const place = { held, end, settled: false }
    this.#inRing.push(place)
    const places = this.#waiting.get(held.ifindex)
    if (places === undefined) this.#waiting.set(held.ifindex, [place])
    else places.push(place)
  }

  /** A record that is nobody's. */
  skip(end: number): void {
    const nothing = { ifindex: 0, atNs: 0n, gsoSize: 0, frame: new Uint8Array() }
    this.#inRing.push({ held: nothing, end, settled: true })
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

  /** The frame of a device that waits for longest. */
  first(ifindex: number): HeldFrame | undefined {
    return this.#waiting.get(ifindex)?.[0]?.held
  }

  /** The first frame of a device was given to its guest, or dropped. */
  settleFirst(ifindex: number): void {
    const places = this.#waiting.get(ifindex)
    const place = places?.shift()
    if (place !== undefined) place.settled = true
    if (places?.length === 0) this.#waiting.delete(ifindex)
  }

  /** Up to where the ring can be let go of since the last time; undefined where nothing more can. */
  release(): number | undefined {
    const kept = this.#inRing.findIndex(({ settled }) => !settled)
    const gone = this.#inRing.splice(0, kept === -1 ? this.#inRing.length : kept)
    return gone.at(-1)?.end
  }

  /** Copies what waits, so that the whole ring can be let go of. */
  copyOut(): void {
    for (const place of this.#inRing) {
      if (!place.settled) place.held = { ...place.held, frame: Uint8Array.from(place.held.frame) }
    }
    const last = this.#inRing.at(-1)
    this.#inRing = []
    if (last !== undefined) this.skip(last.end)
  }
}
