/** The maps of `bpf/traffic.bpf.c`, with the same layout. All numbers are little-endian, as on x86-64 and arm64. */
import type { UserId } from '../../core/ids.ts'

/**
 * The directory in which the maps are pinned. A program with another layout or size of a map must use another
 * directory. Then the frames and counts of the old one are not read, and guests that sleep are watched again.
 */
export const LAYOUT = 'v1'

/** All maps by name, with the bytes of a key and of a value. */
export const MAPS = {
  guests: { keyBytes: 4, valueBytes: 8 },
  held: { keyBytes: 4, valueBytes: 32 },
  taken: { keyBytes: 4, valueBytes: 16 },
  activity_by_user_id: { keyBytes: 4, valueBytes: 16 },
  restarted_by_user_id: { keyBytes: 4, valueBytes: 8 },
  traffic_events: { keyBytes: 0, valueBytes: 0 },
  ignored_ipv4: { keyBytes: 8, valueBytes: 4 },
  ignored_ipv6: { keyBytes: 20, valueBytes: 4 },
  ignored_ports: { keyBytes: 4, valueBytes: 4 },
  settings: { keyBytes: 4, valueBytes: 24 },
} as const

export type MapName = keyof typeof MAPS
export const MAP_NAMES = Object.keys(MAPS) as readonly MapName[]

/** The guest that gets the frames leaving by a device, and whether they are delivered or held. */
export type GuestEntry = { readonly userId: UserId; readonly frames: 'flowing' | 'held' }

/** The counters of one device since its frames are held. */
export type HeldCounters = {
  /** When the first packet that counts arrived (process.hrtime). Absent: none yet. */
  readonly wantedAtNs?: bigint
  /** Frames that were written to the ring buffer. */
  readonly frames: number
  readonly bytes: number
  /** Frames dropped because of a bound or a full ring buffer. */
  readonly droppedFrames: number
}

/** The frames taken over from the ring buffer since frames are held. */
export type TakenFrames = { readonly frames: number; readonly bytes: number }

export type Activity = { readonly packets: number; readonly lastNs: bigint }

/** A record of the ring buffer. */
export type TrafficEvent = {
  readonly userId: UserId
  readonly ifindex: number
  /** The time from process.hrtime. */
  readonly atNs: bigint
  /** The size of the segments into which the frame must still be cut; 0 if the frame is complete. */
  readonly gsoSize: number
  /** Whether the packet counts as traffic. Other packets are held only after one that counts. */
  readonly counts: boolean
  /**
   * The frame from the Ethernet header on, as a view of the record. Empty: it was dropped, and the event only says that
   * the guest is wanted.
   */
  readonly frame: Uint8Array
}

export const EVENT_HEADER_BYTES = 32
const EVENT_COUNTS = 1

/** Decodes a record. A record is longer than the frame in it. */
export function decodeEvent(record: Buffer): TrafficEvent {
  const length = record.readUInt32LE(16)
  return {
    userId: record.readUInt32LE(0) as UserId,
    ifindex: record.readUInt32LE(4),
    atNs: record.readBigUInt64LE(8),
    gsoSize: record.readUInt32LE(20),
    counts: (record.readUInt32LE(24) & EVENT_COUNTS) !== 0,
    frame: record.subarray(EVENT_HEADER_BYTES, EVENT_HEADER_BYTES + length),
  }
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

export function u64(...values: readonly (number | bigint)[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length)
  for (const [at, value] of values.entries()) bytes.writeBigUInt64LE(BigInt(value), 8 * at)
  return bytes
}

const MODES = ['flowing', 'held'] as const

export const encodeGuest = ({ userId, frames }: GuestEntry): Buffer =>
  Buffer.concat([u32(userId), u32(MODES.indexOf(frames))])

export const decodeGuest = (value: Buffer): GuestEntry => ({
  userId: value.readUInt32LE(0) as UserId,
  frames: MODES[value.readUInt32LE(4)] ?? 'held',
})

export const emptyHeld = (): Buffer => Buffer.alloc(MAPS.held.valueBytes)

export function decodeHeld(value: Buffer): HeldCounters {
  const wantedAtNs = value.readBigUInt64LE(0)
  return {
    ...(wantedAtNs === 0n ? {} : { wantedAtNs }),
    frames: Number(value.readBigUInt64LE(8)),
    bytes: Number(value.readBigUInt64LE(16)),
    droppedFrames: Number(value.readBigUInt64LE(24)),
  }
}

export const encodeTaken = ({ frames, bytes }: TakenFrames): Buffer => u64(frames, bytes)

export const decodeTaken = (value: Buffer): TakenFrames => ({
  frames: Number(value.readBigUInt64LE(0)),
  bytes: Number(value.readBigUInt64LE(8)),
})

export const decodeActivity = (value: Buffer): Activity => ({
  packets: Number(value.readBigUInt64LE(0)),
  lastNs: value.readBigUInt64LE(8),
})
