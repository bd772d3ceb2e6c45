import { limits } from '../../config/limits.ts'
import { HeldFrames, isTooOld } from '../../core/sleep/held-frames.ts'
import { InjectedFrames } from '../../core/sleep/injected-frames.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { FrameSender } from './frame-sender.ts'
import { TrafficEvents } from './traffic-events.ts'
import type { HeldFrame } from '../../core/sleep/held-frames.ts'
import type { UserId } from '../../core/ids.ts'
import type { TrafficProgram } from './traffic-program.ts'

export type HeldTrafficOptions = {
  readonly program: TrafficProgram
  /** CLOCK_MONOTONIC, the clock that the program reads. */
  readonly nowNs: () => bigint
  /** Called when a guest is wanted, once for as long as its frames are held. */
  readonly onWanted: (userId: UserId) => void
  /** Called when frames were held for a guest. */
  readonly onHeld: (userId: UserId) => void
  readonly onError: (error: unknown) => void
  /** Called with what `onWanted` or `onHeld` throws. The next packet reports the guest again. */
  readonly onUnreported: (error: unknown) => void
}

type FrameSum = { readonly frames: number; readonly bytes: number }
const NOTHING: FrameSum = { frames: 0, bytes: 0 }

/**
 * Moves held frames from the ring buffer to the device. A frame stays in the ring until it is sent, and the map `taken`
 * records each sent frame at once. So the next daemon knows which frames still wait. Throws what the program
 * and the sender throw.
 */
export class HeldTraffic {
  readonly #options: HeldTrafficOptions
  readonly #program: TrafficProgram
  readonly #frames = new HeldFrames()
  readonly #injected = new InjectedFrames()
  readonly #events: TrafficEvents
  readonly #sender: FrameSender
  /** The devices whose guest was reported as wanted. */
  readonly #reported = new Set<number>()
  /** How many frames of each device we dropped; the program counts its own drops. */
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

  /** Sends the guest all of its waiting frames, or drops them, and releases them. Returns how many frames were sent. */
  settle(ifindex: number, { deliver }: { readonly deliver: boolean }): number {
    this.#takeIn()
    let delivered = 0
    for (let held = this.#first(ifindex); held !== undefined; held = this.#first(ifindex)) {
      const isSent = deliver && !isTooOld(held, this.#options.nowNs()) && this.#send(held)
      if (isSent) delivered += 1
      else this.#drop(ifindex, 1)
      this.#removeFirst(ifindex)
    }
    this.#releaseRing()
    return delivered
  }

  /** Drops frames that have waited for too long, to make room for frames that are still useful. */
  expire(ifindex: number): void {
    this.#takeIn()
    for (let held = this.#first(ifindex); held !== undefined; held = this.#first(ifindex)) {
      if (!isTooOld(held, this.#options.nowNs())) break
      this.#drop(ifindex, 1)
      this.#removeFirst(ifindex)
    }
    this.#releaseRing()
  }

  /**
   * Removes the frames in the ring that are numbered up to `after`, and those that have waited for too long. Returns
   * the others that wait for the device. Their numbers begin with `first`.
   */
  keepAfter(
    ifindex: number,
    after: number,
  ): { readonly first: number; readonly frames: readonly HeldFrame[] } {
    this.expire(ifindex)
    while (this.#frames.count(ifindex) > 0 && this.#taken(ifindex).frames < after) this.#takeFromRing(ifindex)
    this.#releaseRing()
    return { first: this.#taken(ifindex).frames + 1, frames: this.#frames.waiting(ifindex) }
  }

  /** Lets a frame of another host wait before all held frames of its device, or sends it if frames flow. */
  inject(held: HeldFrame): void {
    const { ifindex, counts } = held
    const nowNs = this.#options.nowNs()
    const guest = this.#program.guest(ifindex)
    if (guest?.frames !== 'held') {
      if (!isTooOld(held, nowNs)) this.#send(held)
      return
    }
    if (!this.#injected.add(held, nowNs)) this.#drop(ifindex, 1)
    if (counts && this.#injected.wantedAtNs(ifindex) !== undefined) this.#report(ifindex, guest.userId)
  }

  /** Returns the number of frames that wait for the device. */
  count(ifindex: number): number {
    const { frames } = this.#program.held(ifindex) ?? NOTHING
    return Math.max(0, frames - this.#taken(ifindex).frames) + this.#injected.count(ifindex)
  }

  /** Returns when the first packet that counts came since frames are held, here or on another host. */
  wantedAtNs(ifindex: number): bigint | undefined {
    const here = this.#program.held(ifindex)?.wantedAtNs
    const elsewhere = this.#injected.wantedAtNs(ifindex)
    if (here === undefined || elsewhere === undefined) return here ?? elsewhere
    return here < elsewhere ? here : elsewhere
  }

  /** Returns the first packet that counts, if it still waits; see {@link wantedAtNs}. */
  wantedBy(ifindex: number): HeldFrame | undefined {
    const wantedAtNs = this.wantedAtNs(ifindex)
    const isIt = ({ counts, atNs }: HeldFrame): boolean => counts && atNs === wantedAtNs
    return this.#frames.waiting(ifindex).find(isIt) ?? this.#injected.waiting(ifindex).find(isIt)
  }

  /** Returns how many frames were dropped here since `forget`. The program counts its own drops. */
  dropped(ifindex: number): number {
    return this.#dropped.get(ifindex) ?? 0
  }

  /** Prepares for holding frames of the device: resets everything that is known of earlier holds. */
  begin(ifindex: number): void {
    this.catchUp()
    this.forget(ifindex)
  }

  /** Drops the frames that wait for the device, and everything known about it. */
  forget(ifindex: number): void {
    while (this.#frames.count(ifindex) > 0) this.#frames.removeFirst(ifindex)
    this.#injected.forget(ifindex)
    this.#reported.delete(ifindex)
    this.#dropped.delete(ifindex)
    this.#releaseRing()
  }

  /** Closes this process's ends. Waiting frames stay in the kernel. */
  close(): void {
    this.#events.close()
    this.#sender.close()
  }

  /** Reads new records. If the program held a frame just before the device flowed again, that frame is sent now. */
  catchUp(): void {
    this.#takeIn()
    for (const ifindex of this.#frames.devices()) {
      const guest = this.#program.guest(ifindex)
      if (guest === undefined) this.forget(ifindex)
      else if (guest.frames === 'flowing') this.#giveLate(ifindex)
    }
    this.#releaseRing()
  }

  /**
   * Sends late frames. If the device cannot take them, drops them, because frames of other devices must not wait for
   * it.
   */
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
    const receivers = new Set<UserId>()
    const wanted = new Map<number, UserId>()
    for (let next = this.#events.next(); next !== undefined; next = this.#events.next()) {
      const { event, end } = next
      if (event === undefined || event.frame.length === 0) this.#frames.skip(end)
      else {
        this.#frames.add(event, end)
        receivers.add(event.userId)
      }
      if (event?.counts === true) wanted.set(event.ifindex, event.userId)
    }
    // Not before all is read: who is called may look at the traffic, or throw.
    for (const [ifindex, userId] of wanted) this.#report(ifindex, userId)
    for (const userId of receivers) this.#call(this.#options.onHeld, userId)
  }

  #report(ifindex: number, userId: UserId): void {
    if (this.#reported.has(ifindex)) return
    this.#reported.add(ifindex)
    if (!this.#call(this.#options.onWanted, userId)) this.#reported.delete(ifindex)
  }

  /** Calls a listener, and returns whether that went well. Its error must reach neither another guest nor a look. */
  #call(listener: (userId: UserId) => void, userId: UserId): boolean {
    try {
      listener(userId)
      return true
    } catch (error) {
      this.#options.onUnreported(error)
      return false
    }
  }

  /**
   * Takes over the frames that a former daemon left in the ring. For each device, only the last (held - taken) frames
   * still wait; the ones before were sent. If the ring has fewer than that, the former daemon had the rest in memory,
   * and they are lost.
   */
  #adopt(): void {
    this.#takeIn()
    for (const { ifindex } of this.#program.guests()) {
      const held = this.#heldByNow(ifindex)
      const taken = this.#taken(ifindex)
      const waiting = Math.max(0, held.frames - taken.frames)
      while (this.#frames.count(ifindex) > waiting) this.#frames.removeFirst(ifindex)
      const lost = waiting - this.#frames.count(ifindex)
      if (lost === 0) continue
      const bytes = Math.max(taken.bytes, held.bytes - this.#frames.bytes(ifindex))
      this.#program.setTaken(ifindex, { frames: taken.frames + lost, bytes })
      this.#drop(ifindex, lost)
    }
    // The ring also has records of holds that are over. New frames of those guests must be reported again.
    for (const ifindex of this.#reported)
      if (this.#program.held(ifindex)?.wantedAtNs === undefined) this.#reported.delete(ifindex)
    this.catchUp()
  }

  /** Returns the counters of held frames from a moment at which all of those frames had been read. */
  #heldByNow(ifindex: number): FrameSum {
    for (;;) {
      const before = this.#program.held(ifindex) ?? NOTHING
      this.#takeIn()
      if (this.#program.held(ifindex)?.frames === before.frames || before === NOTHING) return before
    }
  }

  /** Sends a frame, and returns whether it went to the guest. Throws if the device cannot take any frame. */
  #send({ ifindex, frame, gsoSize }: HeldFrame): boolean {
    try {
      return this.#sender.send(ifindex, frame, gsoSize)
    } catch (error) {
      if (isOfDevice(error)) throw error
      return false
    }
  }

  /** Returns the frame that is delivered next. */
  #first(ifindex: number): HeldFrame | undefined {
    return this.#injected.first(ifindex) ?? this.#frames.first(ifindex)
  }

  #removeFirst(ifindex: number): void {
    if (this.#injected.count(ifindex) > 0) this.#injected.removeFirst(ifindex)
    else this.#takeFromRing(ifindex)
  }

  #taken(ifindex: number): FrameSum {
    return this.#program.taken(ifindex) ?? NOTHING
  }

  /**
   * Removes the first frame in the ring. It records this for each frame, so if the daemon ends now, the next one sends
   * at most one frame twice and loses none.
   */
  #takeFromRing(ifindex: number): void {
    const length = this.#frames.first(ifindex)?.frame.length ?? 0
    const held = this.#program.held(ifindex) ?? NOTHING
    const taken = this.#taken(ifindex)
    // `taken` must not exceed `held`: the program would take the difference for a large number.
    this.#program.setTaken(ifindex, {
      frames: Math.min(held.frames, taken.frames + 1),
      bytes: Math.min(held.bytes, taken.bytes + length),
    })
    this.#frames.removeFirst(ifindex)
  }

  #drop(ifindex: number, frames: number): void {
    this.#dropped.set(ifindex, this.dropped(ifindex) + frames)
  }

  /** Releases the part of the ring that no frame needs any more, and keeps room in it. */
  #releaseRing(): void {
    this.#release()
    // A guest that is slow to wake must not keep the ring from other guests.
    if (!this.#events.isHalfFull()) return
    this.#frames.copyOut()
    this.#release()
    this.#dropExcess()
  }

  /** Drops frames in memory beyond the bound for all guests. A guest that loses frames stays wanted. */
  #dropExcess(): void {
    const excess = (): number | undefined => this.#frames.overfull(limits.copiedFramesBytesMax)
    for (let ifindex = excess(); ifindex !== undefined; ifindex = excess()) {
      this.#drop(ifindex, 1)
      this.#takeFromRing(ifindex)
    }
  }

  #release(): void {
    const end = this.#frames.release()
    if (end !== undefined && this.#events.release(end)) this.#reportMissed()
  }

  /** Reports the guests that are wanted by a packet for which the ring had no room. */
  #reportMissed(): void {
    for (const { ifindex, userId, frames } of this.#program.guests())
      if (frames === 'held' && this.#program.held(ifindex)?.wantedAtNs !== undefined)
        this.#report(ifindex, userId)
  }
}

/** Whether the device is down or gone, so that no frame can be sent. */
const isOfDevice = (error: unknown): boolean => hasErrno(error, 'ENXIO', 'ENODEV', 'ENETDOWN')
