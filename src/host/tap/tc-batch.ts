import { limits } from '../../config/limits.ts'
import { queueDevice } from './queue-device.ts'
import type { Bandwidth } from '../../core/vm/desired.ts'
import type { DeviceName } from '../../core/vm/ids.ts'

/** "vm": tells our qdiscs from others, and lets a change of the rate find the qdisc that is there. */
export const OUR_QDISC = { major: 0x766d, text: '766d:' } as const

/**
 * Where our filter stands on what comes in by a tap. Filters are asked by rising preference; those that number themselves
 * stand at 49152 and up (tcf_auto_prio in net/sched/cls_api.c), and there is room before it for whoever wants to be first.
 */
export const OUR_FILTER = { preference: 30_316, handle: 1 } as const

/** A classic BPF program of one instruction (tc-bpf(8)): return -1, that is every packet is meant. */
const EVERY_PACKET = '"1,6 0 0 4294967295,"'

/**
 * The commands of `tc -batch` (tc(8)) that lead from the limits in force to those that shall be.
 *
 * To the guest: a token bucket (tc-tbf(8)) before the device. From the guest there is nothing to hold packets back with
 * where they come in, and to drop what is over the rate makes TCP stumble; so a filter sends them round by a queue device
 * (an `ifb`) with a bucket like the other. They come out of it as if they had just come in by the tap. Others may attach
 * filters of their own to the `clsact` qdisc, so it is never taken away, which would take theirs too; empty it does
 * nothing.
 *
 * A change of the rate is made in the bucket that is there, and no packet in it is lost.
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
  // Of all that is in the bucket, with what may go on at once.
  const limit = burst + Math.min(bytesAMs * limits.bandwidthQueueMs, limits.bandwidthQueueBytesMax)
  return `qdisc replace dev ${device} root handle ${OUR_QDISC.text} tbf rate ${mbitPerSecond}mbit burst ${burst}b limit ${limit}b`
}
