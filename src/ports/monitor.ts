import type { MonitorState } from '../core/plan/world.ts'
import type { MonitorCapabilities } from '../core/unit/capabilities.ts'
import type { MachineSpec } from '../core/unit/machine-spec.ts'
import type { UnitSpec } from '../core/unit/unit-spec.ts'
import type { DiskCounters } from '../core/storage/disk-counters.ts'
import type { DiskLimits } from '../core/vm/desired.ts'
import type { VmId } from '../core/vm/ids.ts'

/** The program that runs a guest, spoken to over its control socket. Throws HostFault. */
export interface Monitor {
  readonly capabilities: MonitorCapabilities
  /** The command and sandbox that run this machine. Pure. */
  unitSpec(machine: MachineSpec): UnitSpec
  /** `silent` where nothing answers on the socket; the caller knows from the unit what that means. */
  inspect(id: VmId): Promise<MonitorState>
  /** HostFault `disk_io_error` where the guest stands still again at once, since its disk still fails. */
  ensureRunning(id: VmId, signal: AbortSignal): Promise<void>
  ensurePaused(id: VmId, signal: AbortSignal): Promise<void>
  /** Afterwards the running guest has seen its disk grow to this size. Only with `growDiskOnline`. */
  ensureDiskSize(id: VmId, sizeMib: number, signal: AbortSignal): Promise<void>
  /** Puts the disk's rate limits in force; an absent one is lifted. */
  ensureDiskLimits(id: VmId, limits: DiskLimits, signal: AbortSignal): Promise<void>
  diskCounters(id: VmId): Promise<DiskCounters>
  /** Calls back when a guest's run state changed. */
  watch(onChange: (id: VmId) => void): void
}
