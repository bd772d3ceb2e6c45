import { limits } from '../../config/limits.ts'
import { HeldFrames } from '../../core/idle/held-frames.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { FrameSender } from './frame-sender.ts'
import { TrafficEvents } from './traffic-events.ts'
import type { HeldFrame } from '../../core/idle/held-frames.ts'
import type { UserId } from '../../core/vm/ids.ts'
import type { TrafficProgram } from './traffic-program.ts'

export type HeldTrafficOptions = {
  readonly program: TrafficProgram
  /** CLOCK_MONOTONIC, as the program reads it. */
  readonly nowNs: () => bigint
  /** A guest is wanted; once for as long as its frames are held. */
  readonly onWanted: (userId: UserId) => void
  readonly onError: (error: unknown) => void
}

type FrameSum = { readonly frames: number; readonly bytes: number }
const NOTHING: FrameSum = { frames: 0, bytes: 0 }

/**
 * What the program held, from the ring buffer to the device. A frame stays in the ring until it is sent, and what is sent
 * is written to the map `taken` at once: the next daemon finds what waits, and knows it from what does not. Throws as
 * the program and the sender do.
 */
export class HeldTraffic {
  readonly #options: HeldTrafficOptions
  readonly #program: TrafficProgram
  readonly #frames = new HeldFrames()
  readonly #events: TrafficEvents
  readonly #sender: FrameSender
  /** Devices whose guest was told of as wanted. */
  readonly #told = new Set<number>()
  /** What we dropped of a device's frames, besides the program. */
  readonly #dropped = new Map<number, number>()

  constructor(options: HeldTrafficOptions) {
    this.#options = options
    this.#program = options.program
    this.#sender = new FrameSender()
    try {
      this.#events = new TrafficEvents({
        fd: this.#program.eventsFd,
        bytes: limits.trafficEventsBytes,
        onEvents: () => {
          try {
            this.catchUp()
          } catch (error) {
            options.onError(error)
          }
        },
      })
    } catch (error) {
      this.#sender.close()
      throw error
    }
    try {
      this.#adopt()
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Gives the guest all that waits for it, or drops it, and lets go of it. Answers how many frames were given. */
  settle(ifindex: number, { deliver }: { readonly deliver: boolean }): number {
    this.#takeIn()
    let delivered = 0
    for (let held = this.#frames.first(ifindex); held !== undefined; held = this.#frames.first(ifindex)) {
      const isSent = deliver && !this.#isTooOld(held) && this.#send(held)
      if (isSent) delivered += 1
      else this.#drop(ifindex, 1)
      this.#settleFirst(ifindex)
    }
    this.#letGo()
    return delivered
  }

  /** Drops what waited for too long, so that there is room for what is of use. */
  expire(ifindex: number): void {
    this.#takeIn()
    for (let held = this.#frames.first(ifindex); held !== undefined; held = this.#frames.first(ifindex)) {
      if (!this.#isTooOld(held)) break
      this.#drop(ifindex, 1)
      this.#settleFirst(ifindex)
    }
    this.#letGo()
  }

  /** Frames that were dropped here since `forget`, besides those that the program counts. */
  dropped(ifindex: number): number {
    return this.#dropped.get(ifindex) ?? 0
  }

  /** Frames of the device are about to be held: as if none had ever been. */
  begin(ifindex: number): void {
    this.catchUp()
    this.forget(ifindex)
  }

  /** Drops what waits for the device, and what is known of it. */
  forget(ifindex: number): void {
    while (this.#frames.count(ifindex) > 0) this.#frames.settleFirst(ifindex)
    this.#told.delete(ifindex)
    this.#dropped.delete(ifindex)
    this.#letGo()
  }

  /** What waits stays in the kernel. */
  close(): void {
    this.#events.close()
    this.#sender.close()
  }

  /** Takes what came. What the program held while the device was about to flow again goes after the rest at once. */
  catchUp(): void {
    this.#takeIn()
    for (const ifindex of this.#frames.devices()) {
      const guest = this.#program.guest(ifindex)
      if (guest === undefined) this.forget(ifindex)
      else if (guest.frames === 'flowing') this.#giveLate(ifindex)
    }
    this.#letGo()
  }

  /** Where the device cannot take frames they are dropped: those of others must not wait for it. */
  #giveLate(ifindex: number): void {
    try {
      this.settle(ifindex, { deliver: true })
    } catch (error) {
      if (!isOfDevice(error)) throw error
      this.#options.onError(error)
      this.settle(ifindex, { deliver: false })
    }
  }

  #takeIn(): void {
    const { onWanted } = this.#options
    for (let next = this.#events.next(); next !== undefined; next = this.#events.next()) {
      const { event, end } = next
      if (event === undefined || event.frame.length === 0) this.#frames.skip(end)
      else this.#frames.add(event, end)
      if (event?.counts === true && !this.#told.has(event.ifindex)) {
        this.#told.add(event.ifindex)
        onWanted(event.userId)
      }
    }
  }

  /**
   * What a former daemon left in the ring. Of a device's frames there the last ones wait, as many as were held and not
   * taken; those before them were sent. Where more were held than are there, that daemon had them in memory.
   */
  #adopt(): void {
    this.#takeIn()
    for (const { ifindex } of this.#program.guests()) {
      const held = this.#heldByNow(ifindex)
      const taken = this.#program.taken(ifindex) ?? NOTHING
      const waiting = Math.max(0, held.frames - taken.frames)
      while (this.#frames.count(ifindex) > waiting) this.#frames.settleFirst(ifindex)
      const lost = waiting - this.#frames.count(ifindex)
      if (lost === 0) continue
      const bytes = Math.max(taken.bytes, held.bytes - this.#frames.bytes(ifindex))
      this.#program.setTaken(ifindex, { frames: taken.frames + lost, bytes })
      this.#drop(ifindex, lost)
    }
    // The ring has records of holds that are over. What comes from now on must be told of.
    for (const ifindex of this.#told)
      if (this.#program.held(ifindex)?.wantedAtNs === undefined) this.#told.delete(ifindex)
    this.catchUp()
  }

  /** What was held by the time that all of it was taken in. */
  #heldByNow(ifindex: number): FrameSum {
    for (;;) {
      const before = this.#program.held(ifindex) ?? NOTHING
      this.#takeIn()
      if (this.#program.held(ifindex)?.frames === before.frames || before === NOTHING) return before
    }
  }

  #isTooOld({ atNs }: HeldFrame): boolean {
    return Number(this.#options.nowNs() - atNs) / 1e6 > limits.heldFrameAgeMs
  }

  /** Whether it went to the guest. Throws where the device cannot take any. */
  #send({ ifindex, frame, gsoSize }: HeldFrame): boolean {
    try {
      return this.#sender.send(ifindex, frame, gsoSize)
    } catch (error) {
      if (isOfDevice(error)) throw error
      return false
    }
  }

  /** Written for each frame: where the daemon ends now, the next one sends at most one frame twice and none too few. */
  #settleFirst(ifindex: number): void {
    const length = this.#frames.first(ifindex)?.frame.length ?? 0
    const held = this.#program.held(ifindex) ?? NOTHING
    const taken = this.#program.taken(ifindex) ?? NOTHING
    // Never more than was held: the program would take the difference for a large number.
    this.#program.setTaken(ifindex, {
      frames: Math.min(held.frames, taken.frames + 1),
      bytes: Math.min(held.bytes, taken.bytes + length),
    })
    this.#frames.settleFirst(ifindex)
  }

  #drop(ifindex: number, frames: number): void {
    this.#dropped.set(ifindex, this.dropped(ifindex) + frames)
  }

  #letGo(): void {
    this.#release()
    // Whoever is slow to wake must not keep the ring from others.
    if (!this.#events.isHalfFull()) return
    this.#frames.copyOut()
    this.#release()
  }

  #release(): void {
    const end = this.#frames.release()
    if (end !== undefined) this.#events.release(end)
  }
}

/** The device is down or gone, whatever the frame. */
const isOfDevice = (error: unknown): boolean => hasErrno(error, 'ENXIO', 'ENODEV', 'ENETDOWN')
