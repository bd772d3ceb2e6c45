import { limits } from '../../src/config/limits.ts'
import { HostFault } from '../../src/core/errors.ts'
import type { Delivery, TrafficState, TrafficSubject } from '../../src/core/world/network-state.ts'
import type { DeviceName, UserId } from '../../src/core/ids.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { Traffic } from '../../src/ports/traffic.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FakeDevices } from './fake-taps.ts'
import type { FaultMoment } from './fault-switch.ts'

export type TrafficMethod =
  | 'inspect'
  | 'ensureWatched'
  | 'restart'
  | 'ensureHeld'
  | 'ensureFlowing'
  | 'remove'

export type Packet = {
  /** Name that identifies the packet among those a guest got. */
  readonly name: string
  readonly bytes: number
  /** Whether it counts as traffic: not a TCP RST, an ICMP error, or anything that is configured to be ignored. */
  readonly counts: boolean
}

type HeldPacket = Packet & { readonly atMs: number }

/** State of the kernel's program for a device that it is attached to. */
type Watched = {
  readonly userId: UserId
  frames: 'flowing' | 'held'
  wantedSinceMs: number | undefined
  /** Packets that the kernel holds for the guest. */
  held: HeldPacket[]
  /** Packets that were dropped while frames were held: past the bounds, or too old. */
  dropped: number
}

type Activity = { packets: number; lastAtMs?: number | undefined; restartedAtMs: number }

export type FakeTrafficOptions = {
  readonly clock: Clock
  /** Devices that exist; they report when one goes, with the program on it. If absent, every device exists. */
  readonly devices?: FakeDevices
  /** Whether a reader behind a device takes a packet. If absent, there always is one. */
  readonly takes?: (userId: UserId) => boolean
}

/**
 * Traffic in memory: the kernel's part, which outlives a daemon, and the daemon's part, which is only the watchers. Two
 * daemons in a row on one host share the fake; a crash is {@link FakeTraffic.forgetWatchers}.
 */
export class FakeTraffic implements Traffic {
  readonly #options: FakeTrafficOptions
  readonly #watched = new Map<DeviceName, Watched>()
  readonly #activity = new Map<UserId, Activity>()
  readonly #given = new Map<UserId, string[]>()
  readonly #faults = new FaultSwitch<TrafficMethod>()
  #watchers: ((userId: UserId) => void)[] = []
  /** Packets that left a device without a reader behind it, or were held and then never delivered. */
  readonly lost: string[] = []

  constructor(options: FakeTrafficOptions) {
    this.#options = options
    options.devices?.watch((device) => {
      if (device !== undefined && options.devices?.get(device) === undefined) this.#gone(device)
    })
  }

  failNext(method: TrafficMethod, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** Lets the next call wait until the returned function is called. */
  holdNext(method: TrafficMethod): () => void {
    return this.#faults.holdNext(method)
  }

  inspect({ device, userId }: TrafficSubject): Promise<TrafficState> {
    return this.#faults.run('inspect', () => {
      const watched = this.#watched.get(device)
      const activity = this.#activity.get(userId)
      if (watched?.userId !== userId || activity === undefined) return { kind: 'unwatched' }
      this.#expire(watched)
      const { packets, lastAtMs, restartedAtMs } = activity
      return {
        kind: 'watched',
        frames: watched.frames,
        packets,
        idleMs: this.#now() - Math.max(lastAtMs ?? 0, restartedAtMs),
        ...(lastAtMs === undefined ? {} : { lastTrafficAtMs: this.#timeOfDayMs(lastAtMs) }),
        heldFrames: watched.held.length,
        ...(watched.wantedSinceMs === undefined
          ? {}
          : { wantedSinceMs: this.#timeOfDayMs(watched.wantedSinceMs) }),
      }
    })
  }

  ensureWatched(subject: TrafficSubject): Promise<void> {
    return this.#faults.run('ensureWatched', () => void this.#watch(subject))
  }

  restart({ userId }: TrafficSubject): Promise<void> {
    return this.#faults.run('restart', () => {
      this.#activityOf(userId).restartedAtMs = this.#now()
    })
  }

  ensureHeld(subject: TrafficSubject): Promise<void> {
    return this.#faults.run('ensureHeld', () => {
      this.#watch(subject).frames = 'held'
    })
  }

  ensureFlowing(
    { device, userId }: TrafficSubject,
    { deliver }: { readonly deliver: boolean },
  ): Promise<Delivery> {
    return this.#faults.run('ensureFlowing', () => {
      const watched = this.#watched.get(device)
      if (watched?.userId !== userId || watched.frames === 'flowing') return { delivered: 0, dropped: 0 }
      this.#expire(watched)
      if (!deliver) this.#drop(watched, watched.held.length)
      const { held, dropped } = watched
      this.#watched.set(device, afresh(userId))
      for (const { name } of held) this.#give(userId, name)
      return { delivered: held.length, dropped }
    })
  }

  remove({ device, userId }: TrafficSubject): Promise<void> {
    return this.#faults.run('remove', () => {
      if (this.#watched.get(device)?.userId === userId) this.#gone(device)
      this.#activity.delete(userId)
    })
  }

  watch(onTraffic: (userId: UserId) => void): () => void {
    this.#watchers.push(onTraffic)
    queueMicrotask(() => {
      if (!this.#watchers.includes(onTraffic)) return
      for (const { userId, wantedSinceMs } of this.#watched.values()) {
        if (wantedSinceMs !== undefined) onTraffic(userId)
      }
    })
    return () => {
      this.#watchers = this.#watchers.filter((other) => other !== onTraffic)
    }
  }

  /** Sends a packet from the host out of a device. Returns what happened to it. */
  receive(device: DeviceName, packet: Partial<Packet> = {}): 'given' | 'held' | 'dropped' | 'lost' {
    const { name = 'packet', bytes = 100, counts = true } = packet
    const watched = this.#watched.get(device)
    if (this.#options.devices?.has(device) === false || watched === undefined) return 'lost'
    const { userId } = watched
    if (counts) {
      const activity = this.#activityOf(userId)
      activity.packets += 1
      activity.lastAtMs = this.#now()
    }
    if (watched.frames === 'flowing') return this.#give(userId, name)
    const isFirst = counts && watched.wantedSinceMs === undefined
    if (isFirst) watched.wantedSinceMs = this.#now()
    const became = this.#hold(watched, { name, bytes, counts, atMs: this.#now() })
    if (isFirst) for (const watcher of this.#watchers) watcher(userId)
    return became
  }

  /** Packets that a guest got, in order. */
  given(userId: UserId): readonly string[] {
    return this.#given.get(userId) ?? []
  }

  /** Forgets the watchers of a daemon that is gone. */
  forgetWatchers(): void {
    this.#watchers = []
  }

  /** Restarts the host: the kernel's state is lost. */
  reboot(): void {
    for (const device of this.#watched.keys()) this.#gone(device)
    this.#activity.clear()
    this.forgetWatchers()
  }

  /** Monotonic time, which the kernel also uses. */
  #now(): number {
    return this.#options.clock.monotonicMs()
  }

  #timeOfDayMs(atMs: number): number {
    return Math.round(this.#options.clock.now() - (this.#now() - atMs))
  }

  /**
   * Holds packets within the bounds. A packet that does not count wakes no guest, and is kept only if the guest is
   * wanted.
   */
  #hold(watched: Watched, packet: HeldPacket): 'held' | 'dropped' {
    if (watched.wantedSinceMs === undefined) return 'dropped'
    const bytes = watched.held.reduce((sum, held) => sum + held.bytes, packet.bytes)
    if (watched.held.length >= limits.heldFramesMax || bytes > limits.heldBytesMax) {
      watched.dropped += 1
      this.lost.push(packet.name)
      return 'dropped'
    }
    watched.held.push(packet)
    return 'held'
  }

  /** Drops packets that waited too long. */
  #expire(watched: Watched): void {
    const oldestAtMs = this.#now() - limits.heldFrameAgeMs
    this.#drop(watched, watched.held.filter(({ atMs }) => atMs < oldestAtMs).length)
  }

  /** Drops the oldest held packets. */
  #drop(watched: Watched, count: number): void {
    this.lost.push(...watched.held.splice(0, count).map(({ name }) => name))
    watched.dropped += count
  }

  #give(userId: UserId, name: string): 'given' | 'lost' {
    if (this.#options.takes?.(userId) === false) {
      this.lost.push(name)
      return 'lost'
    }
    this.#given.set(userId, [...this.given(userId), name])
    return 'given'
  }

  #watch({ device, userId }: TrafficSubject): Watched {
    if (this.#options.devices?.has(device) === false) {
      throw new HostFault('traffic_failed', `watching the traffic of ${device}: there is no such device`)
    }
    this.#activityOf(userId)
    const found = this.#watched.get(device)
    if (found?.userId === userId) return found
    const watched = afresh(userId)
    this.#watched.set(device, watched)
    return watched
  }

  #activityOf(userId: UserId): Activity {
    const found = this.#activity.get(userId) ?? { packets: 0, restartedAtMs: this.#now() }
    this.#activity.set(userId, found)
    return found
  }

  #gone(device: DeviceName): void {
    this.lost.push(...(this.#watched.get(device)?.held ?? []).map(({ name }) => name))
    this.#watched.delete(device)
  }
}

const afresh = (userId: UserId): Watched => ({
  userId,
  frames: 'flowing',
  wantedSinceMs: undefined,
  held: [],
  dropped: 0,
})
