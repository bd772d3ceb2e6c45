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

const FIN_AND_PSH = 0x09
const CWR = 0x80
/** Without options (RFC 9293, 3.1). */
const TCP_HEADER_BYTES = 20
/**
 * Bytes of headers in all segments of a frame; each segment has them all. The smallest segments of Linux have 48 bytes
 * (TCP_MIN_SND_MSS in include/net/tcp.h), which makes 160 KiB of a frame of 64 KiB with IPv6 and TCP options.
 */
const HEADER_BYTES_MAX = 256 * 1024

type Packet = {
  readonly family: 4 | 6
  readonly protocol: typeof TCP | typeof UDP
  /** Offsets in the frame: `start` of the TCP or UDP header, `payload` of its content, and `end` of the packet. */
  readonly start: number
  readonly payload: number
  readonly end: number
  /** Position of the TCP or UDP checksum. */
  readonly field: number
}

/**
 * Returns the frames to send for one that the kernel held on its way out of a device: with complete checksums, and cut
 * into segments. Linux leaves both to the last moment, because a device may do them in hardware. A packet socket that
 * bypasses the device's queue does not cut (__dev_direct_xmit in net/core/dev.c drops frames that would have to be
 * cut).
 *
 * A frame does not say whether its checksum is complete. Until then, the field has the sum of the pseudo-header alone
 * (CHECKSUM_PARTIAL in linux/skbuff.h). A field that is already right is left alone. So is a field that is neither: its
 * frame reached the host with a wrong checksum.
 *
 * Returns no frame if it stands for segments of something else: those of a tunnel that begins on the host (GRE, IP in
 * IP, VXLAN without outer checksums). A tunnel over UDP with outer checksums looks like UDP, and is cut as UDP: its
 * other end refuses the segments. The sender repeats either, and the guest is awake by then. Returns none either if the
 * segments would have more than {@link HEADER_BYTES_MAX} of headers: who wrote the frame may want that memory used.
 *
 * @param gsoSize the payload of each segment that the frame stands for (gso_size of an skb); 0 if it is one
 */
export function completeFrames(frame: Uint8Array, gsoSize: number): readonly Uint8Array[] {
  const packet = readPacket(frame, viewOf(frame))
  if (packet === undefined) return gsoSize > 0 ? [] : [frame]
  if (gsoSize > 0 && packet.end - packet.payload > gsoSize)
    return isWithoutChecksum(frame, packet) || hasTooManyHeaders(packet, gsoSize)
      ? []
      : cut(frame, packet, gsoSize)
  return [isPartial(frame, packet) ? withChecksum(Uint8Array.from(frame), packet) : frame]
}

const hasTooManyHeaders = ({ payload, end }: Packet, gsoSize: number): boolean =>
  Math.ceil((end - payload) / gsoSize) * payload > HEADER_BYTES_MAX

function isPartial(frame: Uint8Array, packet: Packet): boolean {
  const { start, end, field } = packet
  const found = viewOf(frame).getUint16(field)
  if (isWithoutChecksum(frame, packet)) return false
  const pseudo = pseudoSum(frame, packet)
  if (fold(pseudo + sum(frame.subarray(start, end))) === 0xffff) return false
  return found === fold(pseudo)
}

/**
 * Returns whether the packet has no checksum. UDP over IPv4 (RFC 768) and tunnels over IPv6 (RFC 6935) may have none.
 * Linux cuts no datagrams of a socket that asked for that (udp_send_skb in net/ipv4/udp.c).
 */
const isWithoutChecksum = (frame: Uint8Array, { protocol, field }: Packet): boolean =>
  protocol === UDP && viewOf(frame).getUint16(field) === 0

/** Writes the checksum into a frame that belongs to this code. */
function withChecksum(frame: Uint8Array, packet: Packet): Uint8Array {
  const { protocol, start, end, field } = packet
  const view = viewOf(frame)
  view.setUint16(field, 0)
  const checksum = ~fold(pseudoSum(frame, packet) + sum(frame.subarray(start, end))) & 0xffff
  // In UDP, 0 means that there is no checksum.
  view.setUint16(field, protocol === UDP && checksum === 0 ? 0xffff : checksum)
  return frame
}

/** Cuts a frame into segments, as tcp_gso_segment, __udp_gso_segment and inet_gso_segment of Linux do. */
function cut(frame: Uint8Array, packet: Packet, gsoSize: number): readonly Uint8Array[] {
  const segments: Uint8Array[] = []
  for (let at = packet.payload; at < packet.end; at += gsoSize) {
    const data = frame.subarray(at, Math.min(at + gsoSize, packet.end))
    const segment = new Uint8Array(packet.payload + data.length)
    segment.set(frame.subarray(0, packet.payload))
    segment.set(data, packet.payload)
    writeLengths(segment, packet, segments.length)
    if (packet.protocol === TCP) {
      writeSequence(segment, packet, { offset: at - packet.payload, isLast: at + gsoSize >= packet.end })
    }
    segments.push(withChecksum(segment, { ...packet, end: segment.length }))
  }
  return segments
}

function writeLengths(segment: Uint8Array, { family, protocol, start }: Packet, index: number): void {
  const view = viewOf(segment)
  const at = ETHERNET_BYTES
  if (family === 6) view.setUint16(at + 4, segment.length - at - IPV6_HEADER_BYTES)
  else {
    view.setUint16(at + 2, segment.length - at)
    view.setUint16(at + 4, (view.getUint16(at + 4) + index) & 0xffff)
    view.setUint16(at + 10, 0)
    view.setUint16(at + 10, ~fold(sum(segment.subarray(at, start))) & 0xffff)
  }
  if (protocol === UDP) view.setUint16(start + 4, segment.length - start)
}

type Part = { readonly offset: number; readonly isLast: boolean }

/** Writes the sequence number and flags. Only the first segment has CWR, and only the last one has FIN and PSH. */
function writeSequence(segment: Uint8Array, { start }: Packet, { offset, isLast }: Part): void {
  const view = viewOf(segment)
  view.setUint32(start + 4, (view.getUint32(start + 4) + offset) >>> 0)
  const cleared = (isLast ? 0 : FIN_AND_PSH) | (offset === 0 ? 0 : CWR)
  view.setUint8(start + 13, view.getUint8(start + 13) & ~cleared)
}

/**
 * Returns the packet in a frame; undefined if it is not a whole TCP or UDP packet: other protocols, fragments, cut
 * frames, headers shorter than they can be.
 */
function readPacket(frame: Uint8Array, view: DataView): Packet | undefined {
  if (frame.length < ETHERNET_BYTES + IPV4_HEADER_BYTES) return undefined
  const type = view.getUint16(12)
  if (type === TYPE_IPV4) return readIpv4(frame, view)
  if (type === TYPE_IPV6) return readIpv6(frame, view)
  return undefined
}

function readIpv4(frame: Uint8Array, view: DataView): Packet | undefined {
  const at = ETHERNET_BYTES
  const start = at + (view.getUint8(at) & 0x0f) * 4
  const end = at + view.getUint16(at + 2)
  // More fragments follow, or this is not the first one.
  const isFragment = (view.getUint16(at + 6) & 0x3fff) !== 0
  if (view.getUint8(at) >>> 4 !== 4 || isFragment || end > frame.length) return undefined
  if (start < at + IPV4_HEADER_BYTES) return undefined
  return readTransport(view, { family: 4, protocol: view.getUint8(at + 9), start, end })
}

function readIpv6(frame: Uint8Array, view: DataView): Packet | undefined {
  const at = ETHERNET_BYTES
  let start = at + IPV6_HEADER_BYTES
  if (frame.length < start) return undefined
  const end = start + view.getUint16(at + 4)
  if (view.getUint8(at) >>> 4 !== 6 || end > frame.length) return undefined
  let protocol = view.getUint8(at + 6)
  for (let count = 0; EXTENSIONS.includes(protocol); count++) {
    if (count === EXTENSIONS_MAX || start + 8 > end) return undefined
    protocol = view.getUint8(start)
    start += (view.getUint8(start + 1) + 1) * 8
  }
  return readTransport(view, { family: 6, protocol, start, end })
}

type Carried = Pick<Packet, 'family' | 'start' | 'end'> & { readonly protocol: number }

function readTransport(view: DataView, { family, protocol, start, end }: Carried): Packet | undefined {
  if (protocol === UDP && start + 8 <= end) {
    return { family, protocol, start, payload: start + 8, end, field: start + 6 }
  }
  if (protocol !== TCP || start + TCP_HEADER_BYTES > end) return undefined
  const payload = start + (view.getUint8(start + 12) >>> 4) * 4
  return payload < start + TCP_HEADER_BYTES || payload > end
    ? undefined
    : { family, protocol, start, payload, end, field: start + 16 }
}

/** Returns the sum of source, destination, protocol and length (RFC 9293, 3.1; RFC 8200, 8.1); not folded. */
function pseudoSum(frame: Uint8Array, { family, protocol, start, end }: Packet): number {
  const [from, bytes] = family === 4 ? [ETHERNET_BYTES + 12, 8] : [ETHERNET_BYTES + 8, 32]
  return sum(frame.subarray(from, from + bytes)) + protocol + (end - start)
}

/** Returns the sum of 16-bit words in network order, not folded (RFC 1071); at most 2^31 for a frame of 64 KiB. */
function sum(bytes: Uint8Array): number {
  let total = 0
  const even = bytes.length & ~1
  for (let at = 0; at < even; at += 2) total += ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)
  return bytes.length === even ? total : total + ((bytes[even] ?? 0) << 8)
}

function fold(total: number): number {
  let folded = total
  while (folded > 0xffff) folded = (folded % 0x10000) + Math.floor(folded / 0x10000)
  return folded
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
