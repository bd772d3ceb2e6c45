/** Encodes and decodes the parts of nftables over netlink that we use (linux/netfilter/nf_tables.h). */
import {
  decodeAttributes,
  decodeString,
  encodeAttribute,
  encodeString,
  NLM_F_CREATE,
} from '../netlink/message.ts'
import { attributesOf, header, nest } from './nfnetlink.ts'
import type { Message } from '../netlink/message.ts'
import type { Request } from '../netlink/netlink-socket.ts'

const NFNL_SUBSYS_NFTABLES = 10
const NFT_MSG_NEWGEN = 15
const NFT_MSG_GETGEN = 16
const NFT_MSG_NEWSETELEM = 12
const NFT_MSG_GETSETELEM = 13
/** linux/netfilter/nfnetlink.h: the requests around changes that are made together. */
const NFNL_MSG_BATCH_BEGIN = 0x10
const NFNL_MSG_BATCH_END = 0x11
const NFNL_BATCH_GENID = 1
const NFPROTO_INET = 1
const NFPROTO_UNSPEC = 0

/** The messages that request the objects of a table. */
const KINDS = { table: 1, chain: 4, rule: 7, set: 10 } as const
export type Kind = keyof typeof KINDS

const NFTA_GEN_ID = 1
/** For a table its own name; for any other object the table that it is in. */
const NFTA_TABLE_NAME = 1
const NFTA_TABLE_FLAGS = 2
const NFTA_TABLE_USE = 3
const NFTA_TABLE_HANDLE = 4
const NFTA_CHAIN_HANDLE = 2
const NFTA_CHAIN_NAME = 3
const NFTA_CHAIN_POLICY = 5
const NFTA_RULE_CHAIN = 2
const NFTA_RULE_HANDLE = 3
const NFTA_SET_NAME = 2
const NFTA_SET_TIMEOUT = 11
const NFTA_SET_HANDLE = 16
const NFTA_SET_ELEM_LIST_SET = 2
const NFTA_SET_ELEM_LIST_ELEMENTS = 3
const NFTA_LIST_ELEM = 1
const NFTA_SET_ELEM_KEY = 1
const NFTA_SET_ELEM_DATA = 2
const NFTA_SET_ELEM_EXPR = 7
const NFTA_DATA_VALUE = 1
const NFTA_DATA_VERDICT = 2
const NFTA_VERDICT_CODE = 1
const NFTA_VERDICT_CHAIN = 2
const NFTA_EXPR_DATA = 2
const NFTA_COUNTER_BYTES = 1
const NFTA_COUNTER_PACKETS = 2
const NFT_GOTO = -4
const ATTRIBUTE_HEADER_BYTES = 4

type Attributes = ReadonlyMap<number, Buffer>

/** An element of a set or map: its key in hexadecimal, the chain it leads to, and its counter. */
export type Element = {
  readonly key: string
  readonly chain?: string
  readonly count?: { readonly packets: number; readonly bytes: number }
}

export type TableObject = {
  readonly name: string
  /** The settings that an administrator could change without making the object again. */
  readonly settings: string
  /** Unique among all objects of its kind while the host runs, or while its table exists. */
  readonly handle: bigint
}

const messageType = (message: number): number => (NFNL_SUBSYS_NFTABLES << 8) | message
const string = (type: number, text: string): Buffer => encodeAttribute(type, encodeString(text))

export const getGeneration = (): Request => ({
  what: 'get the generation of nftables',
  type: messageType(NFT_MSG_GETGEN),
  body: header(NFPROTO_UNSPEC),
})

/**
 * Requests all objects of a kind in a table of family inet. For chains the kernel returns those of all tables. Rules
 * can be limited to one chain.
 */
export const getObjects = (kind: Kind, table: string, chain?: string): Request => ({
  what: `get each ${kind} of the table ${table}`,
  type: messageType(KINDS[kind]),
  body: Buffer.concat([
    header(NFPROTO_INET),
    string(NFTA_TABLE_NAME, table),
    ...(chain === undefined ? [] : [string(kind === 'rule' ? NFTA_RULE_CHAIN : NFTA_CHAIN_NAME, chain)]),
  ]),
})

/** Requests the elements of a set, or only the one with the given key. */
export const getElements = (table: string, set: string, key?: Uint8Array): Request => ({
  what: `get elements of the set ${set}`,
  type: messageType(NFT_MSG_GETSETELEM),
  body: elementsBody(table, set, key === undefined ? [] : [key]),
})

/** Requests that elements are added to a set. One that is there already stays. */
export const newElements = (table: string, set: string, keys: readonly Uint8Array[]): Request => ({
  what: `add elements to the set ${set}`,
  type: messageType(NFT_MSG_NEWSETELEM),
  flags: NLM_F_CREATE,
  body: elementsBody(table, set, keys),
})

/** Encodes a set, and elements with these keys if there are any. */
function elementsBody(table: string, set: string, keys: readonly Uint8Array[]): Buffer {
  const elements = keys.map((key) =>
    nest(NFTA_LIST_ELEM, nest(NFTA_SET_ELEM_KEY, encodeAttribute(NFTA_DATA_VALUE, key))),
  )
  return Buffer.concat([
    header(NFPROTO_INET),
    string(NFTA_TABLE_NAME, table),
    string(NFTA_SET_ELEM_LIST_SET, set),
    ...(elements.length === 0 ? [] : [nest(NFTA_SET_ELEM_LIST_ELEMENTS, ...elements)]),
  ])
}

/** struct nfgenmsg of a batch: its resource is the subsystem, in network order. */
const BATCH_HEADER = Buffer.from([NFPROTO_UNSPEC, 0, 0, NFNL_SUBSYS_NFTABLES])

/** Begins a transaction, which the kernel refuses (ERESTART) if nftables has another generation. */
export function beginTransaction(generation: number): Request {
  const id = Buffer.alloc(4)
  id.writeUInt32BE(generation)
  return {
    what: 'change nftables',
    type: NFNL_MSG_BATCH_BEGIN,
    body: Buffer.concat([BATCH_HEADER, encodeAttribute(NFNL_BATCH_GENID, id)]),
  }
}

export const endTransaction = (): Request => ({
  what: 'change nftables',
  type: NFNL_MSG_BATCH_END,
  body: BATCH_HEADER,
})

// nftables uses big-endian numbers inside attributes.
const uint32 = (value: Buffer | undefined): number => value?.readUInt32BE(0) ?? 0
const uint64 = (value: Buffer | undefined): bigint => value?.readBigUInt64BE(0) ?? 0n
const text = (value: Buffer | undefined): string => (value === undefined ? '' : decodeString(value))
const hex = (value: Buffer | undefined): string => value?.toString('hex') ?? ''
const nested = (value: Buffer | undefined): Attributes =>
  value === undefined ? new Map<number, Buffer>() : decodeAttributes(value)

export const decodeGeneration = (body: Buffer): number => uint32(attributesOf(body).get(NFTA_GEN_ID))

/** Returns the table of an object, or of a change report. */
export const decodeTableName = (body: Buffer): string => text(attributesOf(body).get(NFTA_TABLE_NAME))

/** Whether a multicast message reports a change in this table of family inet. */
export const isNewsOf = (table: string, { type, body }: Message): boolean =>
  type >> 8 === NFNL_SUBSYS_NFTABLES &&
  type !== messageType(NFT_MSG_NEWGEN) &&
  body[0] === NFPROTO_INET &&
  decodeTableName(body) === table

/** Decodes a table. `use` is the number of its chains, sets, and objects of other kinds. */
export function decodeTable(body: Buffer): TableObject & { readonly use: number } {
  const attributes = attributesOf(body)
  return {
    name: text(attributes.get(NFTA_TABLE_NAME)),
    settings: hex(attributes.get(NFTA_TABLE_FLAGS)),
    handle: uint64(attributes.get(NFTA_TABLE_HANDLE)),
    use: uint32(attributes.get(NFTA_TABLE_USE)),
  }
}

export function decodeChain(body: Buffer): TableObject {
  const attributes = attributesOf(body)
  return {
    name: text(attributes.get(NFTA_CHAIN_NAME)),
    settings: hex(attributes.get(NFTA_CHAIN_POLICY)),
    handle: uint64(attributes.get(NFTA_CHAIN_HANDLE)),
  }
}

export const decodeRuleHandle = (body: Buffer): bigint => uint64(attributesOf(body).get(NFTA_RULE_HANDLE))

export function decodeSet(body: Buffer): TableObject {
  const attributes = attributesOf(body)
  return {
    name: text(attributes.get(NFTA_SET_NAME)),
    settings: hex(attributes.get(NFTA_SET_TIMEOUT)),
    handle: uint64(attributes.get(NFTA_SET_HANDLE)),
  }
}

/** Decodes the elements in one message of a dump. */
export function decodeElements(body: Buffer): readonly Element[] {
  const list = attributesOf(body).get(NFTA_SET_ELEM_LIST_ELEMENTS)
  return list === undefined ? [] : splitList(list).map(decodeElement)
}

/**
 * Returns the values of a list, whose attributes are all of one type. Throws RangeError on a length that does not fit.
 */
function splitList(list: Buffer): readonly Buffer[] {
  const values: Buffer[] = []
  for (let at = 0; at < list.length;) {
    const length = at + ATTRIBUTE_HEADER_BYTES <= list.length ? list.readUInt16LE(at) : 0
    if (length < ATTRIBUTE_HEADER_BYTES || at + length > list.length) {
      throw new RangeError(`nftables list element of ${length} bytes at ${at} of ${list.length}`)
    }
    values.push(list.subarray(at + ATTRIBUTE_HEADER_BYTES, at + length))
    at += (length + 3) & ~3
  }
  return values
}

function decodeElement(value: Buffer): Element {
  const attributes = decodeAttributes(value)
  const data = attributes.get(NFTA_SET_ELEM_DATA)
  const expression = attributes.get(NFTA_SET_ELEM_EXPR)
  return {
    // The element for all keys has no key.
    key: hex(nested(attributes.get(NFTA_SET_ELEM_KEY)).get(NFTA_DATA_VALUE)),
    ...(data === undefined ? {} : { chain: decodeVerdict(data) }),
    ...(expression === undefined ? {} : { count: decodeCounter(expression) }),
  }
}

/** Returns the chain of a `goto`; otherwise a text that is not the name of a chain. */
function decodeVerdict(data: Buffer): string {
  const verdict = nested(nested(data).get(NFTA_DATA_VERDICT))
  const code = uint32(verdict.get(NFTA_VERDICT_CODE)) | 0
  return code === NFT_GOTO ? text(verdict.get(NFTA_VERDICT_CHAIN)) : `verdict ${code}`
}

function decodeCounter(expression: Buffer): { packets: number; bytes: number } {
  const counter = nested(decodeAttributes(expression).get(NFTA_EXPR_DATA))
  return {
    packets: Number(uint64(counter.get(NFTA_COUNTER_PACKETS))),
    bytes: Number(uint64(counter.get(NFTA_COUNTER_BYTES))),
  }
}
