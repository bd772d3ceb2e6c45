import { limits } from '../../config/limits.ts'
import { isTooOld } from './held-frames.ts'
import type { HeldFrame } from './held-frames.ts'

type Injected = {
  waiting: HeldFrame[]
  bytes: number
  /** Arrival time of the oldest frame that counts, even if that frame does not wait any more. */
  wantedAtNs?: bigint
}

/**
 * Holds frames that another host held for a guest that has moved here. They are in memory only, and bounded for each
 * device like the frames that the kernel's program holds.
 */
export class InjectedFrames {
  readonly #devices = new Map<number, Injected>()

  /**
   * Adds a frame behind the others of its device. Returns false if there is no room for it, or it is too old already.
   * The age is the word of another host, so a frame that is too old wants no guest.
   */
  add(held: HeldFrame, nowNs: bigint): boolean {
    if (isTooOld(held, nowNs)) return false
    const { ifindex, frame, counts, atNs } = held
    const injected = this.#devices.get(ifindex) ?? { waiting: [], bytes: 0 }
    this.#devices.set(ifindex, injected)
    if (counts && (injected.wantedAtNs === undefined || atNs < injected.wantedAtNs))
      injected.wantedAtNs = atNs
    if (injected.waiting.length >= limits.heldFramesMax) return false
    if (injected.bytes + frame.length > limits.heldBytesMax) return false
    injected.waiting.push(held)
    injected.bytes += frame.length
    return true
  }

  count(ifindex: number): number {
    return this.#devices.get(ifindex)?.waiting.length ?? 0
  }

  first(ifindex: number): HeldFrame | undefined {
    return this.#devices.get(ifindex)?.waiting[0]
  }

  /** Returns the frames that wait for a device, in order. */
  waiting(ifindex: number): readonly HeldFrame[] {
    return this.#devices.get(ifindex)?.waiting ?? []
  }

  /** Removes the first frame of a device, because it was delivered or dropped. */
  removeFirst(ifindex: number): void {
    const injected = this.#devices.get(ifindex)
    const gone = injected?.waiting.shift()
    if (injected !== undefined && gone !== undefined) injected.bytes -= gone.frame.length
  }

  /** Returns when the first frame that counts came for the device, since `forget`; undefined if none came. */
  wantedAtNs(ifindex: number): bigint | undefined {
    return this.#devices.get(ifindex)?.wantedAtNs
  }

  /** Forgets a device with its frames. */
  forget(ifindex: number): void {
    this.#devices.delete(ifindex)
  }
}
