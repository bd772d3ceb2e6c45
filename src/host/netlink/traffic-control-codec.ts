/**
 * Encodes and decodes what we use of traffic control over rtnetlink(7): the root qdisc of a link (tc(8)), and one
 * filter on its ingress.
 */
import { decodeAttributes, decodeString, NLM_F_ECHO } from './message.ts'
import type { Request } from './netlink-socket.ts'

const RTM_GETQDISC = 38
const RTM_GETTFILTER = 46

/** struct tcmsg: family, padding, interface, handle, parent, and for a filter its preference and protocol. */
const HEADER_BYTES = 20

const TC_H_ROOT = 0xffffffff
/** TC_H_CLSACT with TC_H_MIN_INGRESS: the ingress side of a clsact qdisc. */
const CLSACT_INGRESS = 0xfffffff2
/** htons(ETH_P_ALL). */
const ALL_PROTOCOLS = 0x0300

const TCA_KIND = 1
const TCA_OPTIONS = 2
const TCA_STATS2 = 7
const TCA_STATS_QUEUE = 3
/** The offset of `drops` in struct gnet_stats_queue. */
const DROPS_AT = 8

const TCA_TBF_PARMS = 1
const TCA_TBF_RATE64 = 4
/** The offset of the rate, in bytes per second, in struct tc_tbf_qopt. */
const RATE_AT = 8

const TCA_BPF_ACT = 1
const TCA_ACT_KIND = 1
const TCA_ACT_OPTIONS = 2
const TCA_MIRRED_PARMS = 2
const TCA_EGRESS_REDIR = 1
/** The offsets of the action and of the target link in struct tc_mirred. */
const MIRRED_ACTION_AT = 20
const MIRRED_LINK_AT = 24

export type Qdisc = {
  /** The handle, which the qdisc's maker may choose; 0 if the kernel made the qdisc by itself. */
  readonly handle: number
  readonly kind: string
  /** The rate in bits per second; only for a `tbf`. */
  readonly rate?: number
  /** The packets dropped since the qdisc was made. */
  readonly droppedPackets: number
}

export type Filter = {
  readonly kind: string
  /**
   * The index of the link to which packets are redirected; 0 if that link is gone. Undefined if the filter does not
   * redirect.
   */
  readonly redirectTo?: number
}

function header(index: number, parent: number): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES)
  bytes.writeInt32LE(index, 4)
  bytes.writeUInt32LE(parent, 12)
  return bytes
}

/**
 * Requests the root qdisc. There is no answer if packets go straight to the device. The kernel sends the answer to the
 * multicast group, and to the requester only with NLM_F_ECHO (qdisc_notify in net/sched/sch_api.c).
 */
export const getRootQdisc = (index: number): Request => ({
  what: `get root qdisc of link ${index}`,
  type: RTM_GETQDISC,
  flags: NLM_F_ECHO,
  body: header(index, TC_H_ROOT),
})

/** Requests the ingress filter with that preference and handle. Fails with EINVAL or ENOENT if there is none. */
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

/** Decodes a rate. A rate that does not fit into 32 bits has its own attribute (tbf_dump in net/sched/sch_tbf.c). */
function decodeRate(options: ReadonlyMap<number, Buffer>): number {
  const large = options.get(TCA_TBF_RATE64)?.readBigUInt64LE(0)
  return 8 * Number(large ?? options.get(TCA_TBF_PARMS)?.readUInt32LE(RATE_AT) ?? 0)
}

export function decodeFilter(body: Buffer): Filter {
  const attributes = decodeAttributes(body.subarray(HEADER_BYTES))
  const kind = decodeString(attributes.get(TCA_KIND) ?? Buffer.alloc(0))
  const options = nested(attributes.get(TCA_OPTIONS))
  // The actions are in the order in which they are applied. Ours is the only one.
  const [action] = kind === 'bpf' ? nested(options.get(TCA_BPF_ACT)).values() : []
  const described = nested(action)
  const name = decodeString(described.get(TCA_ACT_KIND) ?? Buffer.alloc(0))
  const parameters = nested(described.get(TCA_ACT_OPTIONS)).get(TCA_MIRRED_PARMS)
  if (name !== 'mirred' || parameters?.readInt32LE(MIRRED_ACTION_AT) !== TCA_EGRESS_REDIR) return { kind }
  return { kind, redirectTo: parameters.readUInt32LE(MIRRED_LINK_AT) }
}

const nested = (value: Buffer | undefined): ReadonlyMap<number, Buffer> =>
  decodeAttributes(value ?? Buffer.alloc(0))
