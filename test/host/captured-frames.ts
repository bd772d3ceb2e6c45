/** Reads frames as a guest's network stack would, and verifies every checksum. */

const ETHERNET_BYTES = 14
const CHECKSUM_AT = { icmp: 2, tcp: 16, udp: 6, icmpv6: 2 } as const
const PROTOCOLS = new Map<number, keyof typeof CHECKSUM_AT>([
  [1, 'icmp'],
  [6, 'tcp'],
  [17, 'udp'],
  [58, 'icmpv6'],
])

export type Captured = {
  readonly protocol: 'icmp' | 'tcp' | 'udp' | 'icmpv6' | 'fragment' | 'other'
  /** Bytes from the TCP, UDP or ICMP header on. */
  readonly payload: Buffer
  /** Whether every checksum is present and right. In a fragment only the header has one. */
  readonly isSound: boolean
}

/** Internet checksum (RFC 1071). */
export function onesSum(...parts: readonly Uint8Array[]): number {
  const bytes = Buffer.concat(parts)
  let sum = 0
  for (let at = 0; at < bytes.length; at += 2) sum += (bytes[at] ?? 0) * 256 + (bytes[at + 1] ?? 0)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return sum
}

export function capture(frame: Buffer): Captured {
  const type = frame.readUInt16BE(12)
  if (type === 0x0800) return captureIpv4(frame.subarray(ETHERNET_BYTES))
  if (type === 0x86dd) return captureIpv6(frame.subarray(ETHERNET_BYTES))
  return { protocol: 'other', payload: frame, isSound: true }
}

function captureIpv4(packet: Buffer): Captured {
  const header = packet.subarray(0, (packet.readUInt8(0) & 0x0f) * 4)
  const payload = packet.subarray(header.length, packet.readUInt16BE(2))
  const isHeaderSound = onesSum(header) === 0xffff
  if ((packet.readUInt16BE(6) & 0x3fff) !== 0)
    return { protocol: 'fragment', payload, isSound: isHeaderSound }
  const found = judge(packet.readUInt8(9), packet.subarray(12, 20), payload)
  return { ...found, isSound: found.isSound && isHeaderSound }
}

function captureIpv6(packet: Buffer): Captured {
  const payload = packet.subarray(40, 40 + packet.readUInt16BE(4))
  if (packet.readUInt8(6) === 44) return { protocol: 'fragment', payload, isSound: true }
  return judge(packet.readUInt8(6), packet.subarray(8, 40), payload)
}

function judge(number: number, addresses: Buffer, payload: Buffer): Captured {
  const protocol = PROTOCOLS.get(number)
  if (protocol === undefined) return { protocol: 'other', payload, isSound: true }
  const pseudo = Buffer.from([0, number, payload.length >>> 8, payload.length & 0xff])
  const parts = protocol === 'icmp' ? [payload] : [addresses, pseudo, payload]
  const isThere = payload.readUInt16BE(CHECKSUM_AT[protocol]) !== 0
  return { protocol, payload, isSound: isThere && onesSum(...parts) === 0xffff }
}

/** Returns the answer of a listening guest to a SYN; its only option is a maximum segment size of 1460. */
export function synAck(syn: Buffer): Buffer {
  const isIpv4 = syn.readUInt16BE(12) === 0x0800
  const at = ETHERNET_BYTES + (isIpv4 ? 20 : 40)
  const tcp = Buffer.alloc(24)
  syn.copy(tcp, 0, at + 2, at + 4)
  syn.copy(tcp, 2, at, at + 2)
  tcp.writeUInt32BE(1_000_000, 4)
  tcp.writeUInt32BE((syn.readUInt32BE(at + 4) + 1) >>> 0, 8)
  tcp.set([0x60, 0x12, 0xff, 0xff], 12)
  tcp.set([2, 4, 1460 >>> 8, 1460 & 0xff], 20)
  const [from, to] = isIpv4 ? [30, 26] : [38, 22]
  const bytes = isIpv4 ? 4 : 16
  const addresses = Buffer.concat([syn.subarray(from, from + bytes), syn.subarray(to, to + bytes)])
  tcp.writeUInt16BE(~onesSum(addresses, Buffer.from([0, 6, 0, 24]), tcp) & 0xffff, 16)
  const ethernet = Buffer.concat([syn.subarray(6, 12), syn.subarray(0, 6), syn.subarray(12, 14)])
  if (!isIpv4) return Buffer.concat([ethernet, Buffer.from('6000000000180640', 'hex'), addresses, tcp])
  const ip = Buffer.concat([Buffer.from('4500002c0000400040060000', 'hex'), addresses])
  ip.writeUInt16BE(~onesSum(ip) & 0xffff, 10)
  return Buffer.concat([ethernet, ip, tcp])
}
