import { MIB } from '../../lib/byte-units.ts'
import type { MonitorDisk, MonitorState } from '../world/world.ts'
import type { DiskCounters } from '../world/counters.ts'
import type { DiskLimits } from '../desired.ts'

/**
 * Returns the meaning of a status of QMP's `query-status` (QEMU QMP Reference Manual, RunState). A guest that suspended
 * itself still runs: only the guest, or a wake-up event, ends that. A guest whose disk failed resumes where it stopped,
 * and its request is repeated. A guest that is being saved, or was saved, stays paused. An unknown status counts as one
 * that the guest cannot leave by itself.
 */
export function monitorStateOf(status: string, disk: MonitorDisk): MonitorState {
  switch (status) {
    case 'running':
    case 'suspended':
      return { kind: 'running', disk }
    case 'paused':
    case 'prelaunch':
    case 'finish-migrate':
    case 'postmigrate':
    case 'save-vm':
      return { kind: 'paused', disk }
    case 'inmigrate':
    case 'restore-vm':
      return { kind: 'restoring' }
    case 'io-error':
      return { kind: 'stalled', status, disk }
    default:
      return { kind: 'broken', status }
  }
}

/** The node that holds the guest's disk, in the command and in every answer (QEMU QMP Reference Manual, node-name). */
export const DISK_NODE = 'disk'

/**
 * Converts limits to QEMU's terms; 0 means no limit. Reads and writes count together; discards and flushes do not. A guest
 * that was idle may use a tenth of a second's worth at once, QEMU's own burst if no `_max` is given. That is enough for
 * requests to queue, while no second exceeds the limit by more than a tenth and one request.
 */
export const throttleOf = (
  limits: DiskLimits,
): { readonly iopsTotal: number; readonly bpsTotal: number } => ({
  iopsTotal: limits.iopsMax ?? 0,
  bpsTotal: (limits.mibPerSecondMax ?? 0) * MIB,
})

/** Returns the arguments of `block_set_io_throttle` for a device. A limit that is not named is lifted. */
export function throttleArguments(qdev: string, limits: DiskLimits): object {
  const { iopsTotal, bpsTotal } = throttleOf(limits)
  const noneApart = { bps_rd: 0, bps_wr: 0, iops_rd: 0, iops_wr: 0 }
  return { id: qdev, bps: bpsTotal, iops: iopsTotal, ...noneApart }
}

/** Returns the arguments of `block_resize`; the guest notices by a change of its device's configuration. */
export const resizeArguments = (sizeMib: number): object => ({
  'node-name': DISK_NODE,
  size: sizeMib * MIB,
})

/** The guest's disk as a monitor shows it, with the path of its device in QEMU's object tree. */
export type QemuDisk = MonitorDisk & { readonly qdev: string }

/**
 * Finds the disk in an answer to `query-block` (BlockInfo); undefined if it is not there. The size is what the guest
 * sees: QEMU reads the file's size once, and again only on a resize.
 */
export function diskIn(answer: unknown): QemuDisk | undefined {
  const blocks = answer as readonly { qdev?: string; inserted?: BlockDeviceInfo }[]
  const block = blocks.find(({ inserted }) => inserted?.['node-name'] === DISK_NODE)
  if (block?.inserted === undefined || block.qdev === undefined) return undefined
  const { image, iops, bps } = block.inserted
  return {
    qdev: block.qdev,
    sizeMib: Math.floor(image['virtual-size'] / MIB),
    ...(iops === 0 ? {} : { iopsMax: iops }),
    ...(bps === 0 ? {} : { mibPerSecondMax: bps / MIB }),
  }
}

type BlockDeviceInfo = {
  readonly 'node-name'?: string
  readonly image: { readonly 'virtual-size': number }
  readonly iops: number
  readonly bps: number
}

/** Finds the disk in an answer to `query-blockstats` (BlockStats); undefined if it is not there. */
export function diskCountersIn(answer: unknown): DiskCounters | undefined {
  const blocks = answer as readonly { 'node-name'?: string; stats: BlockDeviceStats }[]
  const stats = blocks.find((block) => block['node-name'] === DISK_NODE)?.stats
  return (
    stats && {
      readBytes: stats.rd_bytes,
      readOperations: stats.rd_operations,
      writtenBytes: stats.wr_bytes,
      writeOperations: stats.wr_operations,
    }
  )
}

type BlockDeviceStats = {
  readonly rd_bytes: number
  readonly rd_operations: number
  readonly wr_bytes: number
  readonly wr_operations: number
}
