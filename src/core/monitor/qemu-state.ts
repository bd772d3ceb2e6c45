import { MIB } from '../../lib/byte-units.ts'
import { isCount } from '../../lib/parsed-values.ts'
import type { MonitorState } from '../world/world.ts'
import type { DiskCounters } from '../world/counters.ts'
import type { Disk, DiskLimits } from '../desired.ts'

/**
 * Returns the meaning of a status of QMP's `query-status` (QEMU QMP Reference Manual, RunState). A guest that suspended
 * itself still runs: only the guest, or a wake-up event, ends that. A guest whose disk failed resumes where it stopped,
 * and its request is repeated. A guest that is being saved, or was saved, stays paused. An unknown status counts as one
 * that the guest cannot leave by itself.
 */
export function monitorStateOf(status: string, disk: Disk): MonitorState {
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
 * Converts limits to QEMU's terms; 0 means no limit. Reads and writes count together; discards and flushes do not. A
 * guest that was idle may use a tenth of a second's worth at once, QEMU's own burst if no `_max` is given. That is
 * enough for requests to queue, while no second exceeds the limit by more than a tenth and one request.
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
export type QemuDisk = Disk & { readonly qdev: string }

/**
 * Finds the disk in an answer to `query-block` (BlockInfo); undefined if it is not there, or not as QEMU shows it. The
 * size is what the guest sees: QEMU reads the file's size once, and again only on a resize.
 */
export function diskIn(answer: unknown): QemuDisk | undefined {
  const block = (listIn(answer) as readonly Block[]).find((one) => one?.inserted?.['node-name'] === DISK_NODE)
  const { iops, bps, image } = block?.inserted ?? {}
  const bytes = image?.['virtual-size']
  if (typeof block?.qdev !== 'string' || !isCount(bytes) || !isCount(iops) || !isCount(bps)) return undefined
  return {
    qdev: block.qdev,
    sizeMib: Math.floor(bytes / MIB),
    ...(iops === 0 ? {} : { iopsMax: iops }),
    ...(bps === 0 ? {} : { mibPerSecondMax: bps / MIB }),
  }
}

/** Finds the disk in an answer to `query-blockstats` (BlockStats); undefined as for {@link diskIn}. */
export function diskCountersIn(answer: unknown): DiskCounters | undefined {
  const stats = (listIn(answer) as readonly BlockStats[]).find(
    (one) => one?.['node-name'] === DISK_NODE,
  )?.stats
  const { rd_bytes: readBytes, rd_operations: readOperations } = stats ?? {}
  const { wr_bytes: writtenBytes, wr_operations: writeOperations } = stats ?? {}
  return isCount(readBytes) && isCount(readOperations) && isCount(writtenBytes) && isCount(writeOperations)
    ? { readBytes, readOperations, writtenBytes, writeOperations }
    : undefined
}

/** The parts of answers that are read. A monitor that its guest took over may answer anything. */
type Block = {
  readonly qdev?: unknown
  readonly inserted?: {
    readonly 'node-name'?: unknown
    readonly image?: { readonly 'virtual-size'?: unknown } | null
    readonly iops?: unknown
    readonly bps?: unknown
  } | null
} | null

type BlockStats = {
  readonly 'node-name'?: unknown
  readonly stats?: Readonly<Record<string, unknown>> | null
} | null

const listIn = (answer: unknown): readonly unknown[] => (Array.isArray(answer) ? answer : [])
