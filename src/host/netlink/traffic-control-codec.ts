/** What we ask of traffic control over rtnetlink(7): the qdisc of a link (tc(8)), and one filter on what comes in. */
import { decodeAttributes, decodeString, NLM_F_ECHO } from './message.ts'
import type { Request } from './netlink-socket.ts'

const RTM_GETQDISC = 38
const RTM_GETTFILTER = 46

/** struct tcmsg: family, padding, interface, handle, parent, and of a filter its preference and protocol. */
const HEADER_BYTES = 20

const TC_H_ROOT = 0xffffffff
/** TC_H_CLSACT with TC_H_MIN_INGRESS: what comes in, of a clsact qdisc. */
const CLSACT_INGRESS = 0xfffffff2
/** htons(ETH_P_ALL). */
const ALL_PROTOCOLS = 0x0300

const TCA_KIND = 1
const TCA_OPTIONS = 2
const TCA_STATS2 = 7
const TCA_STATS_QUEUE = 3
/** Where struct gnet_stats_queue has `drops`. */
const DROPS_AT = 8

const TCA_TBF_PARMS = 1
const TCA_TBF_RATE64 = 4
/** Where struct tc_tbf_qopt has the bytes a second of its rate. */
const RATE_AT = 8

const TCA_BPF_ACT = 1
const TCA_ACT_KIND = 1
const TCA_ACT_OPTIONS = 2
const TCA_MIRRED_PARMS = 2
const TCA_EGRESS_REDIR = 1
/** Where struct tc_mirred has what it does and to which link. */
const MIRRED_ACTION_AT = 20
const MIRRED_LINK_AT = 24

export type Qdisc = {
  /** Who made it may choose it; 0 of what the kernel makes by itself. */
  readonly handle: number
  readonly kind: string
  /** Of a `tbf` only, in bits a second. */
  readonly rate?: number
  /** Since it was made. */
  readonly droppedPackets: number
}

export type Filter = {
  readonly kind: string
  /** The index of the link that packets are sent to instead; 0 where it is gone. Undefined where it does not do that. */
  readonly redirectTo?: number
}

function header(index: number, parent: number): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES)
  bytes.writeInt32LE(index, 4)
  bytes.writeUInt32LE(parent, 12)
  return bytes
}

/**
 * Answered with nothing where packets go straight to the device. The kernel tells the answer to whoever listens for
 * changes, and to who asked only with NLM_F_ECHO (qdisc_notify in net/sched/sch_api.c).
 */
export const getRootQdisc = (index: number): Request => ({
  what: `get root qdisc of link ${index}`,
  type: RTM_GETQDISC,
  flags: NLM_F_ECHO,
  body: header(index, TC_H_ROOT),
})

/** Of that preference and handle on what comes in by the link. Fails with EINVAL or ENOENT where there is none. */
export function getIngressFilter(index: number, at: FilterPlace): Request {
  const bytes = header(index, CLSACT_INGRESS)
  bytes.writeUInt32LE(at.handle, 8)
  bytes.writeUInt32LE(((at.preference << 16) | ALL_PROTOCOLS) >>> 0, 16)
  return { what: `get filter ${at.preference} of link ${index}`, type: RTM_GETTFILTER, body: bytes }
}

export type FilterPlace = { readonly preference: number; readonly handle: number }

export function decodeQdisc(body: Buffer): Qdisc {
  const attributes = decodeAttributes(body.subarray(HEADER_BYTES))
  const kind = decodeString(attributes.get(TCA_KIND) ?? Buffer.alloc(0))
  const queue = nested(attributes.get(TCA_STATS2)).get(TCA_STATS_QUEUE)
  return {
    handle: body.readUInt32LE(8),
    kind,
    droppedPackets: queue?.readUInt32LE(DROPS_AT) ?? 0,
    ...(kind === 'tbf' ? { rate: decodeRate(nested(attributes.get(TCA_OPTIONS))) } : {}),
  }
}

/** Rates that 32 bits do not hold stand in an attribute of their own (tbf_dump in net/sched/sch_tbf.c). */
function decodeRate(options: ReadonlyMap<number, Buffer>): number {
  const large = options.get(TCA_TBF_RATE64)?.readBigUInt64LE(0)
  return 8 * Number(large ?? options.get(TCA_TBF_PARMS)?.readUInt32LE(RATE_AT) ?? 0)
}

export function decodeFilter(body: Buffer): Filter {
  const attributes = decodeAttributes(body.subarray(HEADER_BYTES))
  const kind = decodeString(attributes.get(TCA_KIND) ?? Buffer.alloc(0))
  const options = nested(attributes.get(TCA_OPTIONS))
  // Actions in the order they are taken; ours is the only one.
  const [action] = kind === 'bpf' ? nested(options.get(TCA_BPF_ACT)).values() : []
  const described = nested(action)
  const name = decodeString(described.get(TCA_ACT_KIND) ?? Buffer.alloc(0))
  const parameters = nested(described.get(TCA_ACT_OPTIONS)).get(TCA_MIRRED_PARMS)
  if (name !== 'mirred' || parameters?.readInt32LE(MIRRED_ACTION_AT) !== TCA_EGRESS_REDIR) return { kind }
  return { kind, redirectTo: parameters.readUInt32LE(MIRRED_LINK_AT) }
}

const nested = (value: Buffer | undefined): ReadonlyMap<number, Buffer> =>
  decodeAttributes(value ?? Buffer.alloc(0))
