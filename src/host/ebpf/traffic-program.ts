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
import type { UserId } from '../../core/vm/ids.ts'

export type TrafficProgramOptions = {
  /** The compiled `bpf/traffic.bpf.c`. */
  readonly object: () => Uint8Array
  /** Where the BPF file system is, or is mounted. */
  readonly directory: string
  readonly ignored?: IgnoredTraffic
}

/**
 * The program on the taps and its maps, which the kernel keeps over a restart of the daemon. It is loaded at the first use;
 * where that fails each use throws why, and tries again after `limits.trafficLoadRetryMs`. Times are those of
 * process.hrtime. Every method may throw ErrnoError, or another Error that says what the host lacks.
 *
 * Who writes what: the program counts in `held` and `activity`, and nobody else does; all else is written here alone.
 */
export class TrafficProgram {
  readonly #options: TrafficProgramOptions
  #loaded: LoadedTrafficProgram | undefined
  #failure: { readonly error: unknown; readonly atMs: number } | undefined

  constructor(options: TrafficProgramOptions) {
    this.#options = options
  }

  /** Whether it was ever loaded since the host was started, by this daemon or one before. Loads nothing. */
  isThere(): boolean {
    return this.#loaded !== undefined || existsSync(path.join(this.#options.directory, codec.LAYOUT))
  }

  /** Puts the program on what leaves by the device, in place of an older build of it. Others' filters stay. */
  attach(ifindex: number): void {
    attachToEgress(ifindex, this.#open().program.fd)
  }

  /** Whether this very program is on the device; false where the device is gone. */
  isAttached(ifindex: number): boolean {
    return egressProgramId(ifindex) === this.#open().program.id
  }

  guest(ifindex: number): GuestEntry | undefined {
    return this.#read('guests', codec.u32(ifindex), codec.decodeGuest)
  }

  /** All that are known, whether or not their devices are still there. */
  guests(): readonly (GuestEntry & { readonly ifindex: number })[] {
    const map = this.#open().maps.guests
    return bpf.keys(map).flatMap((key) => {
      const value = bpf.lookup(map, key)
      return value === undefined ? [] : [{ ifindex: key.readUInt32LE(), ...codec.decodeGuest(value) }]
    })
  }

  /** From now on frames of the device are this guest's. Call `startHold` before frames are held anew. */
  setGuest(ifindex: number, guest: GuestEntry): void {
    this.#write('guests', codec.u32(ifindex), codec.encodeGuest(guest))
  }

  /** Forgets a device; nothing of it is counted or held then. */
  deleteGuest(ifindex: number): void {
    for (const map of ['guests', 'held', 'taken'] as const) this.#delete(map, codec.u32(ifindex))
  }

  /** Counts of the device from 0, and wanted by nobody: to be called before `setGuest` with frames held. */
  startHold(ifindex: number): void {
    this.#write('taken', codec.u32(ifindex), codec.encodeTaken({ frames: 0, bytes: 0 }))
    this.#write('held', codec.u32(ifindex), codec.emptyHeld())
  }

  /** What was held and dropped since `startHold`. It stays to be read when frames flow again. */
  held(ifindex: number): HeldCounters | undefined {
    return this.#read('held', codec.u32(ifindex), codec.decodeHeld)
  }

  taken(ifindex: number): TakenFrames | undefined {
    return this.#read('taken', codec.u32(ifindex), codec.decodeTaken)
  }

  /** Says how much of what is held is no longer in the ring buffer, so that the program may hold as much again. */
  setTaken(ifindex: number, taken: TakenFrames): void {
    this.#write('taken', codec.u32(ifindex), codec.encodeTaken(taken))
  }

  /** Undefined: nothing that counts came yet. */
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

  /** The ring buffer `traffic_events`; its records are those of `decodeEvent`. */
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
