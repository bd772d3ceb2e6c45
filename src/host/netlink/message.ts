/**
 * Encodes and decodes netlink (netlink(7), RFC 3549): messages with a header and a body, and the attributes in bodies.
 */

export type Message = {
  readonly type: number
  readonly flags: number
  /** Set by the sender of a request; its answers repeat it. */
  readonly sequence: number
  /**
   * The port of the socket whose request this message answers, or whose request caused this report; 0 if the kernel
   * acted by itself.
   */
  readonly port: number
  /** The header of the family, then attributes. */
  readonly body: Buffer
}

export const NLMSG_ERROR = 2
export const NLMSG_DONE = 3

export const NLM_F_REQUEST = 0x001
export const NLM_F_ACK = 0x004
/** Sends the answer to the requester too, if the kernel multicasts it. */
export const NLM_F_ECHO = 0x008
/** The dump was interrupted by a change, and may be inconsistent. */
export const NLM_F_DUMP_INTR = 0x010
export const NLM_F_DUMP = 0x300
/** For requests that make an object: takes the place of one that exists. */
export const NLM_F_REPLACE = 0x100
/** For requests that make an object: it must not exist yet. */
export const NLM_F_EXCL = 0x200
export const NLM_F_CREATE = 0x400
/** For NLMSG_ERROR and NLMSG_DONE: the request is not repeated (CAPPED), and attributes follow (ACK_TLVS). */
export const NLM_F_CAPPED = 0x100
export const NLM_F_ACK_TLVS = 0x200

const HEADER_BYTES = 16
const ATTRIBUTE_HEADER_BYTES = 4
/** Masks NLA_F_NESTED and NLA_F_NET_BYTEORDER out. */
const ATTRIBUTE_TYPE_MASK = 0x3fff

/** Messages and attributes start on multiples of four. */
const align = (bytes: number): number => (bytes + 3) & ~3

/** Encodes a request. The kernel fills in its port. */
export function encodeMessage({ type, flags, sequence, body }: Omit<Message, 'port'>): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.writeUInt32LE(HEADER_BYTES + body.length, 0)
  header.writeUInt16LE(type, 4)
  header.writeUInt16LE(flags, 6)
  header.writeUInt32LE(sequence, 8)
  return Buffer.concat([header, body])
}

/**
 * Decodes the messages of one datagram. Their bodies share its memory. Throws RangeError on a length that does not fit.
 */
export function decodeMessages(datagram: Buffer): readonly Message[] {
  const messages: Message[] = []
  for (let at = 0; at < datagram.length;) {
    const length = at + HEADER_BYTES <= datagram.length ? datagram.readUInt32LE(at) : 0
    if (length < HEADER_BYTES || at + length > datagram.length) {
      throw new RangeError(`netlink message of ${length} bytes at ${at} of ${datagram.length}`)
    }
    messages.push({
      type: datagram.readUInt16LE(at + 4),
      flags: datagram.readUInt16LE(at + 6),
      sequence: datagram.readUInt32LE(at + 8),
      port: datagram.readUInt32LE(at + 12),
      body: datagram.subarray(at + HEADER_BYTES, at + length),
    })
    at += align(length)
  }
  return messages
}

/** Encodes one attribute, padded. The value of a nested attribute is the concatenation of its attributes. */
export function encodeAttribute(type: number, value: Uint8Array): Buffer {
  const length = ATTRIBUTE_HEADER_BYTES + value.length
  const bytes = Buffer.alloc(align(length))
  bytes.writeUInt16LE(length, 0)
  bytes.writeUInt16LE(type, 2)
  bytes.set(value, ATTRIBUTE_HEADER_BYTES)
  return bytes
}

export const encodeString = (text: string): Buffer => Buffer.from(`${text}\0`)

export function encodeUint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

/**
 * Decodes attributes by type, with the last of several of one type. Throws RangeError on a length that does not fit.
 */
export function decodeAttributes(bytes: Buffer): ReadonlyMap<number, Buffer> {
  const attributes = new Map<number, Buffer>()
  for (let at = 0; at < bytes.length;) {
    const length = at + ATTRIBUTE_HEADER_BYTES <= bytes.length ? bytes.readUInt16LE(at) : 0
    if (length < ATTRIBUTE_HEADER_BYTES || at + length > bytes.length) {
      throw new RangeError(`netlink attribute of ${length} bytes at ${at} of ${bytes.length}`)
    }
    const type = bytes.readUInt16LE(at + 2) & ATTRIBUTE_TYPE_MASK
    attributes.set(type, bytes.subarray(at + ATTRIBUTE_HEADER_BYTES, at + length))
    at += align(length)
  }
  return attributes
}

/** Decodes a string attribute, with or without its closing NUL. */
export function decodeString(value: Buffer): string {
  const end = value.indexOf(0)
  return value.toString('utf8', 0, end === -1 ? value.length : end)
}
