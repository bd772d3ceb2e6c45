import { parseAddress } from '../../src/core/network/address.ts'

/** Ethernet frames as a hostile guest would build them. */

const bytesOf = (address: string): Uint8Array => {
  const bytes = parseAddress(address)
  if (bytes === undefined) throw new Error(`${address} is not an address`)
  return bytes
}
const macBytes = (mac: string): Buffer => Buffer.from(mac.replaceAll(':', ''), 'hex')

type Arp = {
  readonly operation: 'request' | 'reply'
  readonly mac: string
  readonly sender: string
  readonly target: string
}

/** ARP request (RFC 826), sent to everybody. */
export function arp({ operation, mac, sender, target }: Arp): Buffer {
  return Buffer.concat([
    macBytes('ff:ff:ff:ff:ff:ff'),
    macBytes(mac),
    Buffer.from('0806000108000604', 'hex'),
    Buffer.from([0, operation === 'request' ? 1 : 2]),
    macBytes(mac),
    bytesOf(sender),
    Buffer.alloc(6),
    bytesOf(target),
  ])
}

/** Neighbour solicitation (RFC 4861, 4.3): asks for the gateway's hardware address, with that of the sender. */
export function neighbourSolicitation(from: {
  readonly mac: string
  readonly source: string
  readonly hopLimit?: number
}): Buffer {
  const target = bytesOf('fe80::1')
  const destination = bytesOf('ff02::1:ff00:1')
  const body = Buffer.concat([
    Buffer.from('8700000000000000', 'hex'),
    target,
    Buffer.from([1, 1]),
    macBytes(from.mac),
  ])
  body.writeUInt16BE(
    checksum(
      Buffer.concat([
        bytesOf(from.source),
        destination,
        Buffer.from([0, 0, 0, body.length, 0, 0, 0, 58]),
        body,
      ]),
    ),
    2,
  )
  return Buffer.concat([
    macBytes('33:33:ff:00:00:01'),
    macBytes(from.mac),
    Buffer.from('86dd60000000', 'hex'),
    Buffer.from([0, body.length, 58, from.hopLimit ?? 255]),
    bytesOf(from.source),
    destination,
    body,
  ])
}

/** Internet checksum (RFC 1071). */
function checksum(bytes: Buffer): number {
  let sum = 0
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return ~sum & 0xffff
}
