import { existsSync } from 'node:fs'
import path from 'node:path'
import { limits } from '../../config/limits.ts'
import { attachToEgress, egressProgramId } from './egress-hook.ts'
import { NOTHING_IGNORED, writeSettings } from './ignored-traffic.ts'
import * as bpf from './libbpf.ts'
import { closeTrafficProgram, loadTrafficProgram } from './load-traffic-program.ts'
import * as codec from './traffic-maps.ts'
import type { LoadedTrafficProgram } from './load-traffic-program.ts'
import type { IgnoredTraffic } from './ignored-traffic.ts'
import type { Activity, GuestEntry, HeldCounters, TakenFrames } from './traffic-maps.ts'
import type { UserId } from '../../core/ids.ts'

export type TrafficProgramOptions = {
  /** The compiled `bpf/traffic.bpf.c`. */
  readonly object: () => Uint8Array
  /** The path at which the BPF file system is mounted, or will be. */
  readonly directory: string
  readonly ignored?: IgnoredTraffic
}

/**
 * The program on the taps and its maps, which the kernel keeps when the daemon restarts. The first use loads it. If
 * loading fails, each use throws the reason, and loading is tried again after `limits.trafficLoadRetryMs`. Times are
 * those of process.hrtime. Every method may throw ErrnoError, or another Error that says what the host lacks.
 *
 * Only the program writes `held` and `activity` while it counts. This class alone writes everything else.
 */
export class TrafficProgram {
  readonly #options: TrafficProgramOptions
  #loaded: LoadedTrafficProgram | undefined
  /** The guests of the map by the index of their device: to search the map takes two system calls for each guest. */
  #userIds: Map<number, UserId> | undefined
  #failure: { readonly error: unknown; readonly atMs: number } | undefined

  constructor(options: TrafficProgramOptions) {
    this.#options = options
  }

  /** Returns whether a daemon has loaded the program since the host started. Loads nothing. */
  isThere(): boolean {
    return this.#loaded !== undefined || existsSync(path.join(this.#options.directory, codec.LAYOUT))
  }

  /** Attaches the program to the device's egress, and replaces an older build of it. Filters of other programs stay. */
  async attach(ifindex: number): Promise<void> {
    await attachToEgress(ifindex, this.#open().program.fd)
  }

  /** Returns whether exactly this program is on the device; false if the device is gone. */
  isAttached(ifindex: number): boolean {
    return egressProgramId(ifindex) === this.#open().program.id
  }

  guest(ifindex: number): GuestEntry | undefined {
    return this.#read('guests', codec.u32(ifindex), codec.decodeGuest)
  }

  /** Returns all known guests, including those whose device is gone. */
  guests(): readonly (GuestEntry & { readonly ifindex: number })[] {
    const map = this.#open().maps.guests
    return bpf.keys(map).flatMap((key) => {
      const value = bpf.lookup(map, key)
      return value === undefined ? [] : [{ ifindex: key.readUInt32LE(), ...codec.decodeGuest(value) }]
    })
  }

  /** Returns the indexes of a guest's devices, including those that are gone. */
  devicesOf(userId: UserId): readonly number[] {
    return [...this.#devices()].flatMap(([ifindex, owner]) => (owner === userId ? [ifindex] : []))
  }

  #devices(): Map<number, UserId> {
    this.#userIds ??= new Map(this.guests().map(({ ifindex, userId }) => [ifindex, userId]))
    return this.#userIds
  }

  /** Gives the frames of the device to this guest. Before frames are held again, call `startHold`. */
  setGuest(ifindex: number, guest: GuestEntry): void {
    const devices = this.#devices()
    this.#write('guests', codec.u32(ifindex), codec.encodeGuest(guest))
    devices.set(ifindex, guest.userId)
  }

  /** Forgets a device: its frames are no longer counted or held. */
  deleteGuest(ifindex: number): void {
    const devices = this.#devices()
    for (const map of ['guests', 'held', 'taken'] as const) this.#delete(map, codec.u32(ifindex))
    devices.delete(ifindex)
  }

  /**
   * Resets the device's counters to 0 and clears that its guest is wanted. Call it before `setGuest` with frames held.
   */
  startHold(ifindex: number): void {
    this.#write('taken', codec.u32(ifindex), codec.encodeTaken({ frames: 0, bytes: 0 }))
    this.#write('held', codec.u32(ifindex), codec.emptyHeld())
  }

  /** Returns what was held and dropped since `startHold`. It can still be read when frames flow again. */
  held(ifindex: number): HeldCounters | undefined {
    return this.#read('held', codec.u32(ifindex), codec.decodeHeld)
  }

  taken(ifindex: number): TakenFrames | undefined {
    return this.#read('taken', codec.u32(ifindex), codec.decodeTaken)
  }

  /** Records how much of the held frames has left the ring buffer, so that the program may hold as much again. */
  setTaken(ifindex: number, taken: TakenFrames): void {
    this.#write('taken', codec.u32(ifindex), codec.encodeTaken(taken))
  }

  /** Returns a guest's activity; undefined if nothing that counts came yet. */
  activity(userId: UserId): Activity | undefined {
    return this.#read('activity_by_user_id', codec.u32(userId), codec.decodeActivity)
  }

  restartedNs(userId: UserId): bigint | undefined {
    return this.#read('restarted_by_user_id', codec.u32(userId), (value) => value.readBigUInt64LE())
  }

  setRestarted(userId: UserId, atNs: bigint): void {
    this.#write('restarted_by_user_id', codec.u32(userId), codec.u64(atNs))
  }

  /** Forgets a guest's activity and the start of its idle clock. */
  deleteActivity(userId: UserId): void {
    this.#delete('activity_by_user_id', codec.u32(userId))
    this.#delete('restarted_by_user_id', codec.u32(userId))
  }

  /** The descriptor of the ring buffer `traffic_events`, whose records `decodeEvent` decodes. */
  get eventsFd(): number {
    return this.#open().maps.traffic_events.fd
  }

  #read<T>(map: codec.MapName, key: Buffer, decode: (value: Buffer) => T): T | undefined {
    const value = bpf.lookup(this.#open().maps[map], key)
    return value === undefined ? undefined : decode(value)
  }

  #write(map: codec.MapName, key: Buffer, value: Buffer): void {
    bpf.update(this.#open().maps[map], key, value)
  }

  #delete(map: codec.MapName, key: Buffer): void {
    bpf.remove(this.#open().maps[map], key)
  }

  #open(): LoadedTrafficProgram {
    if (this.#loaded !== undefined) return this.#loaded
    const now = performance.now()
    if (this.#failure !== undefined && now - this.#failure.atMs < limits.trafficLoadRetryMs)
      throw this.#failure.error
    try {
      const { object, directory, ignored } = this.#options
      const loaded = loadTrafficProgram(object(), directory)
      try {
        writeSettings(loaded.maps, ignored ?? NOTHING_IGNORED)
      } catch (error) {
        closeTrafficProgram(loaded)
        throw error
      }
      this.#loaded = loaded
      return loaded
    } catch (error) {
      this.#failure = { error, atMs: now }
      throw error
    }
  }
}
