/** Frames from host to guest, as short as possible. Checksums are left at 0, which no program on the way checks. */
import { parseAddress } from '../../src/core/network/address.ts'

const GUEST_MAC = '02:76:00:01:86:a1'
const HOST_MAC = '02:00:00:00:00:01'
export const ETHERTYPE = { ipv4: 0x0800, arp: 0x0806, vlan: 0x8100, ipv6: 0x86dd, lldp: 0x88cc } as const
export const IP = {
  icmp: 1,
  tcp: 6,
  udp: 17,
  routing: 43,
  fragment: 44,
  sctp: 132,
  icmpv6: 58,
  options: 60,
} as const

export type Packet = {
  readonly protocol?: number
  readonly payload?: Uint8Array
  readonly source?: string
  readonly destination?: string
  /** Offset in units of 8 bytes. */
  readonly fragmentOffset?: number
  readonly moreFragments?: boolean
  readonly mac?: string
}

const bytesOf = (address: string): Uint8Array => {
  const bytes = parseAddress(address)
  if (bytes === undefined) throw new Error(`${address} is not an address`)
  return bytes
}

function u16(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(2 * values.length)
  for (const [at, value] of values.entries()) bytes.writeUInt16BE(value, 2 * at)
  return bytes
}

export const macBytes = (text: string): Buffer => Buffer.from(text.replaceAll(':', ''), 'hex')

export const ethernet = (type: number, payload: Uint8Array, to: string = GUEST_MAC): Buffer =>
  Buffer.concat([macBytes(to), macBytes(HOST_MAC), u16(type), payload])

/** Returns an IPv4 packet (RFC 791). */
export function ipv4(packet: Packet): Buffer {
  const { protocol = IP.udp, payload = udp(), fragmentOffset = 0, moreFragments = false } = packet
  const header = Buffer.concat([
    Buffer.from([0x45, 0]),
    u16(20 + payload.length, 1, fragmentOffset | (moreFragments ? 0x2000 : 0)),
    Buffer.from([64, protocol, 0, 0]),
    bytesOf(packet.source ?? '203.0.113.2'),
    bytesOf(packet.destination ?? '192.0.2.10'),
  ])
  return ethernet(ETHERTYPE.ipv4, Buffer.concat([header, payload]), packet.mac)
}

/** Returns an IPv6 packet (RFC 8200); `protocol` is that of the first header after IPv6's own. */
export function ipv6(packet: Packet): Buffer {
  const { protocol = IP.udp, payload = udp() } = packet
  const header = Buffer.concat([
    Buffer.from([0x60, 0, 0, 0]),
    u16(payload.length),
    Buffer.from([protocol, 64]),
    bytesOf(packet.source ?? '2001:db8:ffff::2'),
    bytesOf(packet.destination ?? '2001:db8::10'),
  ])
  return ethernet(ETHERTYPE.ipv6, Buffer.concat([header, payload]), packet.mac)
}

export const udp = (port = 53, bytes = 0): Buffer =>
  Buffer.concat([u16(40_000, port, 8 + bytes, 0), Buffer.alloc(bytes, 0x5a)])

const TCP_FLAGS = { syn: 0x02, rst: 0x04, ack: 0x10 } as const

export function tcp(flags: readonly (keyof typeof TCP_FLAGS)[], port = 80, bytes = 0): Buffer {
  const header = Buffer.alloc(20 + bytes, 0x5a)
  header.set(u16(40_000, port, 0, 1, 0, 2))
  header[12] = 5 << 4
  header[13] = flags.reduce((sum, flag) => sum | TCP_FLAGS[flag], 0)
  return header
}

/** Returns a packet of either family. */
export const icmp = (type: number): Buffer => Buffer.from([type, 0, 0, 0, 0, 1, 0, 1])

/** Puts a hop-by-hop, routing or destination options header (RFC 8200, 4.3 to 4.6) before the payload that it names. */
export const extension = (next: number, payload: Uint8Array, units = 0): Buffer =>
  Buffer.concat([Buffer.from([next, units]), Buffer.alloc(6 + 8 * units), payload])

/** Returns a fragment header (RFC 8200, 4.5). */
export const ipv6Fragment = (next: number, offset: number, payload: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from([next, 0]), u16((offset << 3) | 1), Buffer.alloc(4), payload])
