import { formatAddress } from './address.ts'
import {
  ETHERNET_BYTES,
  EXTENSIONS,
  EXTENSIONS_MAX,
  IPV4_HEADER_BYTES,
  IPV6_HEADER_BYTES,
  TCP,
  TYPE_IPV4,
  TYPE_IPV6,
  UDP,
} from './frame-layout.ts'
import type { PacketFlow } from '../world/network-state.ts'

const FRAGMENT = 44

const NAMES: Readonly<Record<number, string>> = { 1: 'icmp', 6: 'tcp', 17: 'udp', 58: 'icmpv6' }
const WITH_PORTS: readonly number[] = [TCP, UDP]

/** Returns what packet a frame carries, from its Ethernet header on; undefined if it is not IP, or is cut short. */
export function packetFlow(frame: Uint8Array): PacketFlow | undefined {
  if (frame.length < ETHERNET_BYTES) return undefined
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength)
  switch (view.getUint16(12)) {
    case TYPE_IPV4:
      return ipv4Flow(frame, view)
    case TYPE_IPV6:
      return ipv6Flow(frame, view)
    default:
      return undefined
  }
}

function ipv4Flow(frame: Uint8Array, view: DataView): PacketFlow | undefined {
  const at = ETHERNET_BYTES
  if (frame.length < at + IPV4_HEADER_BYTES || view.getUint8(at) >>> 4 !== 4) return undefined
  const isLaterFragment = (view.getUint16(at + 6) & 0x1fff) !== 0
  return flowOf(view, {
    protocol: view.getUint8(at + 9),
    source: frame.subarray(at + 12, at + 16),
    destination: frame.subarray(at + 16, at + 20),
    ...(isLaterFragment ? {} : { portsAt: at + (view.getUint8(at) & 0x0f) * 4 }),
  })
}

function ipv6Flow(frame: Uint8Array, view: DataView): PacketFlow | undefined {
  const at = ETHERNET_BYTES
  let next = at + IPV6_HEADER_BYTES
  if (frame.length < next || view.getUint8(at) >>> 4 !== 6) return undefined
  let protocol = view.getUint8(at + 6)
  let isLaterFragment = false
  for (let count = 0; EXTENSIONS.includes(protocol) || protocol === FRAGMENT; count += 1) {
    if (count === EXTENSIONS_MAX || next + 8 > frame.length) return undefined
    const isFragment = protocol === FRAGMENT
    if (isFragment) isLaterFragment = (view.getUint16(next + 2) & 0xfff8) !== 0
    protocol = view.getUint8(next)
    next += isFragment ? 8 : (view.getUint8(next + 1) + 1) * 8
    if (isLaterFragment) break
  }
  return flowOf(view, {
    protocol,
    source: frame.subarray(at + 8, at + 24),
    destination: frame.subarray(at + 24, at + 40),
    ...(isLaterFragment ? {} : { portsAt: next }),
  })
}

type Headers = {
  readonly protocol: number
  readonly source: Uint8Array
  readonly destination: Uint8Array
  /** Where the ports would be; absent if the packet has none. */
  readonly portsAt?: number
}

function flowOf(view: DataView, { protocol, source, destination, portsAt }: Headers): PacketFlow {
  const flow = {
    protocol: NAMES[protocol] ?? String(protocol),
    source: formatAddress(source),
    destination: formatAddress(destination),
  }
  if (portsAt === undefined || !WITH_PORTS.includes(protocol) || portsAt + 4 > view.byteLength) return flow
  return { ...flow, sourcePort: view.getUint16(portsAt), destinationPort: view.getUint16(portsAt + 2) }
}
