import { limits } from '../../config/limits.ts'
import { queueDevice } from './tap-names.ts'
import type { Bandwidth } from '../../core/desired.ts'
import type { DeviceName } from '../../core/ids.ts'

/** The letters "vm": distinguishes our qdiscs from others, and lets a change of the rate find the existing qdisc. */
export const OUR_QDISC = { major: 0x766d, text: '766d:' } as const

/**
 * The place of our filter on the ingress of a tap. Filters apply in the order of rising preference. Filters without a
 * preference get 49152 and up (tcf_auto_prio in net/sched/cls_api.c). There is room before ours for filters that must
 * come first.
 */
export const OUR_FILTER = { preference: 30_316, handle: 1 } as const

/** A classic BPF program of one instruction (tc-bpf(8)): return -1, which matches every packet. */
const EVERY_PACKET = '"1,6 0 0 4294967295,"'

/**
 * Returns the commands of `tc -batch` (tc(8)) that change the limits in force to the wanted ones.
 *
 * To the guest there is a token bucket (tc-tbf(8)) before the device. From the guest, packets cannot be queued on
 * ingress, and dropping those over the rate disturbs TCP. So a filter redirects them through a queue device (an `ifb`)
 * with a similar bucket. They come out of it as if they had just arrived from the tap. Other programs may attach
 * filters to the `clsact` qdisc, so it is never removed, which would remove those too; an empty one does nothing.
 *
 * A new rate is set in the existing bucket, and no packet in it is lost.
 */
export function tcBatch(device: DeviceName, wanted: Bandwidth, now: Bandwidth): readonly string[] {
  return [
    ...receiveCommands(device, wanted.receiveMbitPerSecond, now.receiveMbitPerSecond),
    ...transmitCommands(device, wanted.transmitMbitPerSecond, now.transmitMbitPerSecond),
  ]
}

type Mbit = number | undefined

function receiveCommands(device: DeviceName, wanted: Mbit, now: Mbit): readonly string[] {
  if (wanted === now) return []
  return wanted === undefined ? [`qdisc del dev ${device} root`] : [bucketOn(device, wanted)]
}

function transmitCommands(device: DeviceName, wanted: Mbit, now: Mbit): readonly string[] {
  if (wanted === now) return []
  const { preference, handle } = OUR_FILTER
  if (wanted === undefined) return [`filter del dev ${device} ingress pref ${preference}`]
  const queue = queueDevice(device)
  const bucket = bucketOn(queue, wanted)
  if (now !== undefined && now > 0) return [bucket]
  return [
    bucket,
    `qdisc replace dev ${device} clsact`,
    `filter replace dev ${device} ingress pref ${preference} protocol all handle ${handle} bpf bytecode ${EVERY_PACKET} action mirred egress redirect dev ${queue}`,
  ]
}

const BYTES_A_MS_A_MBIT = 1_000_000 / 8 / 1000

function bucketOn(device: string, mbitPerSecond: number): string {
  const bytesAMs = mbitPerSecond * BYTES_A_MS_A_MBIT
  const burst = Math.max(bytesAMs * limits.bandwidthBurstMs, limits.bandwidthBurstBytesMin)
  // All bytes in the bucket, including those that may be sent at once.
  const limit = burst + Math.min(bytesAMs * limits.bandwidthQueueMs, limits.bandwidthQueueBytesMax)
  return `qdisc replace dev ${device} root handle ${OUR_QDISC.text} tbf rate ${mbitPerSecond}mbit burst ${burst}b limit ${limit}b`
}
