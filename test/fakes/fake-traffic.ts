import { limits } from '../../src/config/limits.ts'
import { HostFault } from '../../src/core/errors.ts'
import type { Delivery, PacketFlow, TrafficState } from '../../src/core/world/network-state.ts'
import type { DeviceName, HostIdentity, UserId } from '../../src/core/ids.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { HeldPacket, Traffic } from '../../src/ports/traffic.ts'
import { given } from '../../src/lib/given.ts'
import { Listeners } from '../../src/lib/listeners.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FakeDevices } from './fake-taps.ts'
import type { FaultMoment } from './fault-switch.ts'

export type TrafficMethod =
  | 'inspect'
  | 'ensureWatched'
  | 'restart'
  | 'ensureHeld'
  | 'ensureFlowing'
  | 'held'
  | 'inject'
  | 'remove'

export type Packet = {
  /** Name that identifies the packet among those a guest got. */
  readonly name: string
  readonly bytes: number
  /** Whether it counts as traffic: not a TCP RST, an ICMP error, or anything that is configured to be ignored. */
  readonly counts: boolean
  /** Its 5-tuple; absent if its frame is not that of an IP packet. */
  readonly flow?: PacketFlow
}

type Waiting = Packet & { readonly atMs: number }

/** State of the kernel's program for a device that it is attached to. */
type Watched = {
  readonly userId: UserId
  frames: 'flowing' | 'held'
  wantedSinceMs: number | undefined
  /** Packets that the kernel holds for the guest. */
  held: Waiting[]
  /** How many packets came before these since frames are held. */
  settled: number
  /** Packets that another host held, in the daemon's memory. */
  injected: Waiting[]
  injectedWantedMs: number | undefined
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
  readonly #heldWatchers = new Listeners<[userId: UserId]>()
  /** The number of the last injected packet of each guest. */
  readonly #injected = new Map<UserId, number>()
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

  inspect({ device, userId }: HostIdentity): Promise<TrafficState> {
    return this.#faults.run('inspect', () => {
      const watched = this.#watched.get(device)
      const activity = this.#activity.get(userId)
      if (watched?.userId !== userId || activity === undefined) return { kind: 'unwatched' }
      this.#expire(watched)
      const { packets, lastAtMs, restartedAtMs } = activity
      const wantedMs = wantedMsOf(watched)
      const wantedBy = [...watched.held, ...watched.injected].find(
        ({ counts, atMs }) => counts && atMs === wantedMs,
      )?.flow
      return {
        kind: 'watched',
        frames: watched.frames,
        packets,
        idleMs: this.#now() - Math.max(lastAtMs ?? 0, restartedAtMs),
        ...(lastAtMs === undefined ? {} : { lastTrafficAtMs: this.#timeOfDayMs(lastAtMs) }),
        heldFrames: watched.injected.length + watched.held.length,
        ...(wantedMs === undefined ? {} : { wantedSinceMs: this.#timeOfDayMs(wantedMs) }),
        ...(wantedBy === undefined ? {} : { wantedBy }),
      }
    })
  }

  ensureWatched(subject: HostIdentity): Promise<void> {
    return this.#faults.run('ensureWatched', () => void this.#watch(subject))
  }

  restart({ userId }: HostIdentity): Promise<void> {
    return this.#faults.run('restart', () => {
      this.#activityOf(userId).restartedAtMs = this.#now()
    })
  }

  ensureHeld(subject: HostIdentity): Promise<void> {
    return this.#faults.run('ensureHeld', () => {
      this.#watch(subject).frames = 'held'
    })
  }

  ensureFlowing(
    { device, userId }: HostIdentity,
    { deliver }: { readonly deliver: boolean },
  ): Promise<Delivery> {
    return this.#faults.run('ensureFlowing', () => {
      const watched = this.#watched.get(device)
      if (watched?.userId !== userId || watched.frames === 'flowing') return { delivered: 0, dropped: 0 }
      this.#expire(watched)
      if (!deliver) for (const queue of queuesOf(watched)) this.#drop(watched, queue, queue.length)
      const { injected, held, dropped } = watched
      this.#watched.set(device, afresh(userId))
      for (const { name } of [...injected, ...held]) this.#give(userId, name)
      return { delivered: injected.length + held.length, dropped }
    })
  }

  keepHeldAfter({ device, userId }: HostIdentity, after: number): Promise<readonly HeldPacket[]> {
    return this.#faults.run('held', () => {
      const watched = this.#watched.get(device)
      if (watched?.userId !== userId || watched.frames === 'flowing') return []
      this.#expire(watched)
      watched.settled += watched.held.splice(0, Math.max(0, after - watched.settled)).length
      return watched.held.map(({ name, bytes, counts, atMs }, at) => ({
        number: watched.settled + at + 1,
        gsoSize: 0,
        ageMs: Math.round(this.#now() - atMs),
        counts,
        frame: Buffer.from(name.padEnd(bytes, '\0')),
      }))
    })
  }

  inject({ device, userId }: HostIdentity, packets: readonly HeldPacket[]): Promise<void> {
    return this.#faults.run('inject', () => {
      const watched = this.#watched.get(device)
      if (watched?.userId !== userId) {
        throw new HostFault('traffic_failed', `taking over frames for ${device}: the device is not watched`)
      }
      for (const { number, ageMs, counts, frame } of packets) {
        if (number <= (this.#injected.get(userId) ?? 0)) continue
        this.#injected.set(userId, number)
        if (counts) this.#activityOf(userId).restartedAtMs = this.#now()
        const name = Buffer.from(frame).toString().replace(/\0+$/, '')
        this.#takeOver(watched, { name, bytes: frame.length, counts, atMs: this.#now() - ageMs })
      }
    })
  }

  remove({ device, userId }: HostIdentity): Promise<void> {
    return this.#faults.run('remove', () => {
      this.#injected.delete(userId)
      if (this.#watched.get(device)?.userId === userId) this.#gone(device)
      this.#activity.delete(userId)
    })
  }

  watch(onTraffic: (userId: UserId) => void, only?: HostIdentity): () => void {
    const watcher = (userId: UserId): void => {
      if (only === undefined || only.userId === userId) onTraffic(userId)
    }
    this.#watchers.push(watcher)
    queueMicrotask(() => {
      if (!this.#watchers.includes(watcher)) return
      for (const watched of this.#watched.values()) {
        if (wantedMsOf(watched) !== undefined) watcher(watched.userId)
      }
    })
    return () => {
      this.#watchers = this.#watchers.filter((other) => other !== watcher)
    }
  }

  watchHeld(onHeld: (userId: UserId) => void): () => void {
    return this.#heldWatchers.add(onHeld)
  }

  /** Sends a packet from the host out of a device. Returns what happened to it. */
  receive(device: DeviceName, packet: Partial<Packet> = {}): 'given' | 'held' | 'dropped' | 'lost' {
    const { name = 'packet', bytes = 100, counts = true, flow } = packet
    const watched = this.#watched.get(device)
    if (this.#options.devices?.has(device) === false || watched === undefined) return 'lost'
    const { userId } = watched
    if (counts) {
      const activity = this.#activityOf(userId)
      activity.packets += 1
      activity.lastAtMs = this.#now()
    }
    if (watched.frames === 'flowing') return this.#give(userId, name)
    const isFirst = counts && wantedMsOf(watched) === undefined
    if (counts) watched.wantedSinceMs ??= this.#now()
    const became = this.#hold(watched, { name, bytes, counts, atMs: this.#now(), ...given({ flow }) })
    if (isFirst) this.#report(userId)
    if (became === 'held') this.#heldWatchers.notify(userId)
    return became
  }

  /** Packets that a guest got, in order. */
  given(userId: UserId): readonly string[] {
    return this.#given.get(userId) ?? []
  }

  /** Forgets the watchers of a daemon that is gone, and the packets in its memory. */
  forgetWatchers(): void {
    this.#watchers = []
    this.#heldWatchers.clear()
    this.#injected.clear()
    for (const watched of this.#watched.values()) {
      this.lost.push(...watched.injected.splice(0).map(({ name }) => name))
      watched.injectedWantedMs = undefined
    }
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
  #hold(watched: Watched, packet: Waiting): 'held' | 'dropped' {
    if (watched.wantedSinceMs === undefined) return 'dropped'
    return this.#enqueue(watched, watched.held, packet)
  }

  /** Adds a packet that another host held. */
  #takeOver(watched: Watched, packet: Waiting): void {
    const { userId } = watched
    if (watched.frames === 'flowing') {
      if (this.#isTooOld(packet)) this.lost.push(packet.name)
      else this.#give(userId, packet.name)
      return
    }
    if (this.#isTooOld(packet)) {
      this.lost.push(packet.name)
      watched.dropped += 1
      return
    }
    const isFirst = packet.counts && wantedMsOf(watched) === undefined
    if (packet.counts) watched.injectedWantedMs = Math.min(packet.atMs, watched.injectedWantedMs ?? Infinity)
    this.#enqueue(watched, watched.injected, packet)
    if (isFirst) this.#report(userId)
  }

  #enqueue(watched: Watched, queue: Waiting[], packet: Waiting): 'held' | 'dropped' {
    const bytes = queue.reduce((sum, held) => sum + held.bytes, packet.bytes)
    if (queue.length >= limits.heldFramesMax || bytes > limits.heldBytesMax) {
      watched.dropped += 1
      this.lost.push(packet.name)
      return 'dropped'
    }
    queue.push(packet)
    return 'held'
  }

  #report(userId: UserId): void {
    for (const watcher of this.#watchers) watcher(userId)
  }

  #isTooOld({ atMs }: Waiting): boolean {
    return atMs < this.#now() - limits.heldFrameAgeMs
  }

  /** Drops packets that waited too long. */
  #expire(watched: Watched): void {
    for (const queue of queuesOf(watched)) {
      const young = queue.findIndex((packet) => !this.#isTooOld(packet))
      const count = young === -1 ? queue.length : young
      if (queue === watched.held) watched.settled += count
      this.#drop(watched, queue, count)
    }
  }

  /** Drops the oldest packets of a queue. */
  #drop(watched: Watched, queue: Waiting[], count: number): void {
    this.lost.push(...queue.splice(0, count).map(({ name }) => name))
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

  #watch({ device, userId }: HostIdentity): Watched {
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
    const watched = this.#watched.get(device)
    if (watched === undefined) return
    for (const queue of queuesOf(watched)) this.lost.push(...queue.map(({ name }) => name))
    this.#watched.delete(device)
  }
}

/** The packets that wait, in the order of their delivery. */
const queuesOf = ({ injected, held }: Watched): readonly [Waiting[], Waiting[]] => [injected, held]

function wantedMsOf({ wantedSinceMs, injectedWantedMs }: Watched): number | undefined {
  if (wantedSinceMs === undefined || injectedWantedMs === undefined) return wantedSinceMs ?? injectedWantedMs
  return Math.min(wantedSinceMs, injectedWantedMs)
}

const afresh = (userId: UserId): Watched => ({
  userId,
  frames: 'flowing',
  wantedSinceMs: undefined,
  held: [],
  settled: 0,
  injected: [],
  injectedWantedMs: undefined,
  dropped: 0,
})
