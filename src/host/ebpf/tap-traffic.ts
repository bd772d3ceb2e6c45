import { constants } from 'node:os'
import { HostFault } from '../../core/errors.ts'
import { packetFlow } from '../../core/network/packet-flow.ts'
import { ErrnoError, hasErrno } from '../ffi/errno-error.ts'
import { library } from '../ffi/koffi.ts'
import { HeldTraffic } from './held-traffic.ts'
import type { Delivery, TrafficState, WatchedTraffic } from '../../core/world/network-state.ts'
import type { DeviceName, HostIdentity, UserId } from '../../core/ids.ts'
import { outsideLogContext } from '../../log/log.ts'
import { Listeners } from '../../lib/listeners.ts'
import type { Log } from '../../log/log.ts'
import type { HeldPacket, Traffic } from '../../ports/traffic.ts'
import type { TrafficProgram } from './traffic-program.ts'

export type TapTrafficOptions = {
  readonly program: TrafficProgram
  readonly log: Log
  /** CLOCK_MONOTONIC; tests replace it. */
  readonly nowNs?: () => bigint
}

const ifNameToIndex = library('libc.so.6').func('uint32_t if_nametoindex(const char *name)')

const NOTHING: Delivery = { delivered: 0, dropped: 0 }
/**
 * How often `ensureFlowing` empties the hold while more frames come. Frames still held then arrive after the first one
 * that flows.
 */
const SETTLE_ATTEMPTS_MAX = 8

/**
 * Watches and holds the traffic of taps with the program on each of them. The kernel keeps all state, and only one
 * daemon at a time may ask for it. The program is loaded at the first use. On a host without BPF each method throws the
 * reason, and the daemon runs on.
 */
export class TapTraffic implements Traffic {
  readonly #program: TrafficProgram
  readonly #log: Log
  readonly #nowNs: () => bigint
  readonly #watchers = new Listeners<[userId: UserId]>()
  readonly #heldWatchers = new Listeners<[userId: UserId]>()
  /** The number of the last injected packet of each guest. */
  readonly #injected = new Map<UserId, number>()
  #traffic: HeldTraffic | undefined

  constructor({ program, log, nowNs }: TapTrafficOptions) {
    this.#program = program
    this.#log = log
    this.#nowNs = nowNs ?? (() => process.hrtime.bigint())
  }

  async inspect(subject: HostIdentity): Promise<TrafficState> {
    const { device, userId } = subject
    try {
      const held = this.#openTraffic()
      const ifindex = this.#indexOf(device)
      if (ifindex === undefined || !this.#program.isAttached(ifindex)) return { kind: 'unwatched' }
      const guest = this.#program.guest(ifindex)
      const restartedNs = this.#program.restartedNs(userId)
      if (guest?.userId !== userId || restartedNs === undefined) return { kind: 'unwatched' }
      const activity = this.#program.activity(userId)
      const state = {
        kind: 'watched',
        packets: activity?.packets ?? 0,
        idleMs: this.#agoMs(max(activity?.lastNs ?? 0n, restartedNs)),
        ...(activity === undefined ? {} : { lastTrafficAtMs: this.#timeOfDayMs(activity.lastNs) }),
      } as const
      if (guest.frames === 'flowing') return { ...state, frames: 'flowing', heldFrames: 0 }
      held.expire(ifindex)
      return {
        ...state,
        frames: 'held',
        heldFrames: held.count(ifindex),
        ...this.#wantOf(held, ifindex),
      }
    } catch (error) {
      throw failed(`inspecting the traffic of ${device}`, error)
    }
  }

  async ensureWatched(subject: HostIdentity): Promise<void> {
    try {
      await this.#watchDevice(subject)
    } catch (error) {
      throw failed(`watching the traffic of ${subject.device}`, error)
    }
  }

  async restart({ device, userId }: HostIdentity): Promise<void> {
    try {
      this.#program.setRestarted(userId, this.#nowNs())
    } catch (error) {
      throw failed(`starting the idle clock of ${device}`, error)
    }
  }

  async ensureHeld(subject: HostIdentity): Promise<void> {
    const { device, userId } = subject
    try {
      const held = this.#openTraffic()
      const ifindex = await this.#watchDevice(subject)
      if (this.#program.guest(ifindex)?.frames === 'held') return
      held.begin(ifindex)
      this.#program.startHold(ifindex)
      this.#program.setGuest(ifindex, { userId, frames: 'held' })
    } catch (error) {
      throw failed(`holding the frames of ${device}`, error)
    }
  }

  async ensureFlowing(subject: HostIdentity, how: { readonly deliver: boolean }): Promise<Delivery> {
    const { device, userId } = subject
    try {
      const held = this.#openTraffic()
      const ifindex = this.#holding(subject)
      if (ifindex === undefined) return NOTHING
      let delivered = 0
      for (let attempt = 0; attempt < SETTLE_ATTEMPTS_MAX; attempt++) {
        const sent = held.settle(ifindex, how)
        delivered += sent
        if (sent === 0) break
      }
      this.#program.setGuest(ifindex, { userId, frames: 'flowing' })
      delivered += held.settle(ifindex, how)
      const droppedByProgram = this.#program.held(ifindex)?.droppedFrames ?? 0
      return { delivered, dropped: droppedByProgram + held.dropped(ifindex) }
    } catch (error) {
      throw failed(`giving the guest of ${device} the frames that were held for it`, error)
    }
  }

  async keepHeldAfter(subject: HostIdentity, after: number): Promise<readonly HeldPacket[]> {
    try {
      const held = this.#openTraffic()
      const ifindex = this.#holding(subject)
      if (ifindex === undefined) return []
      const { first, frames } = held.keepAfter(ifindex, after)
      return frames.map(({ atNs, gsoSize, counts, frame }, at) => ({
        number: first + at,
        gsoSize,
        ageMs: Math.round(this.#agoMs(atNs)),
        counts,
        // The ring may be used again as soon as the frame is settled.
        frame: Uint8Array.from(frame),
      }))
    } catch (error) {
      throw failed(`reading the frames that are held for ${subject.device}`, error)
    }
  }

  async inject({ device, userId }: HostIdentity, packets: readonly HeldPacket[]): Promise<void> {
    try {
      const held = this.#openTraffic()
      const ifindex = this.#indexOf(device)
      if (ifindex === undefined) throw new ErrnoError(`find device ${device}`, constants.errno.ENODEV)
      if (this.#program.guest(ifindex)?.userId !== userId) throw new Error('the device is not watched')
      const nowNs = this.#nowNs()
      for (const { number, gsoSize, ageMs, counts, frame } of packets) {
        if (number <= (this.#injected.get(userId) ?? 0)) continue
        held.inject({ ifindex, atNs: nowNs - BigInt(Math.round(ageMs * 1e6)), gsoSize, counts, frame })
        this.#injected.set(userId, number)
        if (counts) this.#program.setRestarted(userId, nowNs)
      }
    } catch (error) {
      throw failed(`taking over the frames that another host held for ${device}`, error)
    }
  }

  async remove({ device, userId }: HostIdentity): Promise<void> {
    try {
      this.#injected.delete(userId)
      // Nothing was ever recorded, for example on a host without BPF.
      if (!this.#program.isThere()) return
      this.#forget(userId)
      this.#program.deleteActivity(userId)
    } catch (error) {
      throw failed(`forgetting the traffic of ${device}`, error)
    }
  }

  watch(onTraffic: (userId: UserId) => void, only?: HostIdentity): () => void {
    let ended = false
    let unwatch = (): void => {}
    setImmediate(() => {
      if (ended) return
      const wanted = this.#wanted(only)
      unwatch = this.#watchers.add((userId) => {
        if (only === undefined || only.userId === userId) onTraffic(userId)
      })
      for (const userId of wanted) onTraffic(userId)
    })
    return () => {
      ended = true
      unwatch()
    }
  }

  watchHeld(onHeld: (userId: UserId) => void): () => void {
    return this.#heldWatchers.add(onHeld)
  }

  /** Stops watching. Held frames stay in the kernel, for the next daemon. */
  close(): void {
    this.#watchers.clear()
    this.#heldWatchers.clear()
    this.#traffic?.close()
    this.#traffic = undefined
  }

  /** Returns since when the guest is wanted, and by which packet. */
  #wantOf(held: HeldTraffic, ifindex: number): Pick<WatchedTraffic, 'wantedSinceMs' | 'wantedBy'> {
    const wantedAtNs = held.wantedAtNs(ifindex)
    if (wantedAtNs === undefined) return {}
    const first = held.wantedBy(ifindex)
    const wantedBy = first && packetFlow(first.frame)
    const wantedSinceMs = this.#timeOfDayMs(wantedAtNs)
    return wantedBy === undefined ? { wantedSinceMs } : { wantedSinceMs, wantedBy }
  }

  /**
   * Returns the guests that all watchers were already called for; with `only`, that guest or none. If the program
   * cannot be loaded now, the first use reports why.
   */
  #wanted(only: HostIdentity | undefined): readonly UserId[] {
    try {
      const held = this.#openTraffic()
      held.catchUp()
      if (only !== undefined) {
        const ifindex = this.#holding(only)
        return ifindex !== undefined && held.wantedAtNs(ifindex) !== undefined ? [only.userId] : []
      }
      return this.#program
        .guests()
        .filter(({ ifindex, frames }) => frames === 'held' && held.wantedAtNs(ifindex) !== undefined)
        .map(({ userId }) => userId)
    } catch (error) {
      this.#log.error({ error }, 'traffic watch failed')
      return []
    }
  }

  /** Returns the traffic, opened at the first use. */
  #openTraffic(): HeldTraffic {
    this.#traffic ??= outsideLogContext(() => this.#newTraffic())
    return this.#traffic
  }

  #newTraffic(): HeldTraffic {
    return new HeldTraffic({
      program: this.#program,
      nowNs: this.#nowNs,
      onWanted: (userId) => this.#watchers.notify(userId),
      onHeld: (userId) => this.#heldWatchers.notify(userId),
      onError: (error) => this.#log.error({ error }, 'held frames not delivered'),
      onUnreported: (error) => this.#log.error({ error }, 'held frames not reported'),
    })
  }

  /**
   * Ensures that the device is watched, and returns its index. Leaves correct state as it is: held frames stay held.
   */
  async #watchDevice({ device, userId }: HostIdentity): Promise<number> {
    const ifindex = this.#indexOf(device)
    if (ifindex === undefined) throw new ErrnoError(`find device ${device}`, constants.errno.ENODEV)
    if (this.#program.restartedNs(userId) === undefined) this.#program.setRestarted(userId, this.#nowNs())
    if (this.#program.guest(ifindex)?.userId !== userId) {
      // Removes the entry of a device that the guest had before.
      this.#forget(userId)
      this.#program.setGuest(ifindex, { userId, frames: 'flowing' })
    }
    if (!this.#program.isAttached(ifindex)) await this.#program.attach(ifindex)
    return ifindex
  }

  /** Forgets a guest. Searches by its user id, because its device may be gone. */
  #forget(userId: UserId): void {
    for (const ifindex of this.#program.devicesOf(userId)) {
      this.#program.deleteGuest(ifindex)
      this.#openTraffic().forget(ifindex)
    }
  }

  /** Returns the index of the device, if its frames are held for this guest. */
  #holding({ device, userId }: HostIdentity): number | undefined {
    const ifindex = this.#indexOf(device)
    const guest = ifindex === undefined ? undefined : this.#program.guest(ifindex)
    return guest?.userId === userId && guest.frames === 'held' ? ifindex : undefined
  }

  #indexOf(device: DeviceName): number | undefined {
    const ifindex = ifNameToIndex(device) as number
    return ifindex === 0 ? undefined : ifindex
  }

  #agoMs(ns: bigint): number {
    return Math.max(0, Number(this.#nowNs() - ns) / 1e6)
  }

  #timeOfDayMs(ns: bigint): number {
    return Math.round(Date.now() - this.#agoMs(ns))
  }
}

const max = (one: bigint, other: bigint): bigint => (one > other ? one : other)

function failed(doing: string, error: unknown): HostFault {
  const retry = hasErrno(error, 'EINTR', 'EAGAIN', 'EBUSY', 'ENODEV', 'ENXIO')
    ? { retry: 'soon' as const }
    : {}
  return new HostFault('traffic_failed', doing, { cause: error, ...retry })
}
