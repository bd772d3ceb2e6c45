/** The frame of messages to netfilter over netlink (linux/netfilter/nfnetlink.h). */
import { decodeAttributes, encodeAttribute } from '../netlink/message.ts'

const HEADER_BYTES = 4
const NLA_F_NESTED = 0x8000

/** struct nfgenmsg: family, version 0, resource 0. */
export const header = (family: number): Buffer => Buffer.from([family, 0, 0, 0])

export const nest = (type: number, ...attributes: Buffer[]): Buffer =>
  encodeAttribute(type | NLA_F_NESTED, Buffer.concat(attributes))

/** Decodes the attributes behind the header. Throws RangeError on a length that does not fit. */
export const attributesOf = (body: Buffer): ReadonlyMap<number, Buffer> =>
  decodeAttributes(body.subarray(HEADER_BYTES))
