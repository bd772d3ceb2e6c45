import { err, ok } from '../../lib/result.ts'
import { refuseSleep } from './check-network.ts'
import { refuseVcpus } from '../capacity/admit.ts'
import { isStopped, notStopped, storeDesired } from './store-desired.ts'
import type { Compute, Desired, Disk } from '../../core/desired.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult, Refusal } from '../context.ts'

/** Stores CPU, memory and idle timeout. */
export const setCompute = (context: CommandContext, id: VmId, compute: Compute): CommandResult =>
  reshape(context, id, { reason: 'compute', shape: ({ disk }) => ({ compute, disk }) })

/** Stores the size of the disk and its rate limits. */
export const setDisk = (context: CommandContext, id: VmId, disk: Disk): CommandResult =>
  reshape(context, id, { reason: 'disk', shape: ({ compute }) => ({ compute, disk }) })

/** Stores compute and the size of the disk, both or neither. The disk's rate limits stay. */
export const resize = (
  context: CommandContext,
  id: VmId,
  { compute, diskMib }: { readonly compute: Compute; readonly diskMib: number },
): CommandResult =>
  reshape(context, id, {
    reason: 'resize',
    shape: ({ disk }) => ({ compute, disk: { ...disk, sizeMib: diskMib } }),
  })

type Shape = Pick<Desired, 'compute' | 'disk'>

function reshape(
  context: CommandContext,
  id: VmId,
  change: { readonly reason: string; readonly shape: (desired: Desired) => Shape },
): CommandResult {
  return storeDesired(context, id, {
    reason: change.reason,
    decide: (before) => {
      const shape = change.shape(before.desired)
      const refusal = refuseShape(context, before, shape)
      return refusal === undefined ? ok({ ...before.desired, ...shape }) : err(refusal)
    },
  })
}

function refuseShape(
  context: CommandContext,
  record: VmRecord,
  { compute, disk }: Shape,
): Refusal | undefined {
  const { desired } = record
  if (disk.sizeMib < desired.disk.sizeMib) {
    return {
      code: 'disk_shrink',
      detail: `the disk of ${record.id} has ${desired.disk.sizeMib} MiB and never shrinks: ask for that or more`,
    }
  }
  const guestChanges =
    compute.cpuMillicores !== desired.compute.cpuMillicores || compute.memoryMib !== desired.compute.memoryMib
  if (guestChanges && !isStopped(record)) return notStopped(record, 'CPU and memory')
  // A value that the VM already has is not judged again.
  if (compute.cpuMillicores !== desired.compute.cpuMillicores) {
    const refusal = refuseVcpus(context, compute, '/cpu_millicores')
    if (refusal !== undefined) return refusal
  }
  if (compute.sleepAfterIdleSeconds !== desired.compute.sleepAfterIdleSeconds) {
    const refusal = refuseSleep({ ...desired, compute }, '/sleep_after_idle_seconds')
    if (refusal !== undefined) return refusal
  }
  return undefined
}
