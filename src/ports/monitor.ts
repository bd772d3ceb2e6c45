import type { MonitorState } from '../core/plan/world.ts'
import type { SavingMonitor } from '../core/storage/saved-state.ts'
import type { MonitorCapabilities } from '../core/unit/capabilities.ts'
import type { MachineSpec } from '../core/unit/machine-spec.ts'
import type { UnitSpec } from '../core/unit/unit-spec.ts'
import type { DiskCounters } from '../core/storage/disk-counters.ts'
import type { DiskLimits } from '../core/vm/desired.ts'
import type { VmId } from '../core/vm/ids.ts'

/**
 * What became of a freeze. `none`: nothing in the guest is frozen by it, surely. `unknown`: it was sent, and nobody knows: the
 * guest may be frozen, or be so later.
 */
export type FreezeOutcome = 'frozen' | 'none' | 'unknown'

/** The program that runs a guest, spoken to over its control socket. Throws HostFault. */
export interface Monitor {
  readonly capabilities: MonitorCapabilities
  /** What a monitor of a guest of so much memory may take besides, in MiB; its unit may have no more. Pure. */
  memoryMib(guestMib: number): number
  /** The command and sandbox that run this machine. Pure. */
  unitSpec(machine: MachineSpec): UnitSpec
  /** `silent` where nothing answers on the socket; the caller knows from the unit what that means. */
  inspect(id: VmId): Promise<MonitorState>
  /**
   * Whoever waits to be told goes on: also a guest that was saved, or is being saved, in which case the save is given up.
   * HostFault `disk_io_error` where the guest stands still again at once, since its disk still fails, and `monitor_refused`
   * where it is still being restored.
   */
  ensureRunning(id: VmId, signal: AbortSignal): Promise<void>
  ensurePaused(id: VmId, signal: AbortSignal): Promise<void>
  /** Afterwards the running guest has seen its disk grow to this size. Only with `growDiskOnline`. */
  ensureDiskSize(id: VmId, sizeMib: number, signal: AbortSignal): Promise<void>
  /** Puts the disk's rate limits in force; an absent one is lifted. */
  ensureDiskLimits(id: VmId, limits: DiskLimits, signal: AbortSignal): Promise<void>
  /** The program that a start would run, as it is installed now. Asked anew only where its file changed; `monitor_missing`. */
  installed(): Promise<SavingMonitor>
  /**
   * Writes the memory and devices of a guest that stands still to a file that its unit may write. Free memory is left out.
   * Answers who wrote it. On abort the writing ends soon, and the guest stands still as before; `save_failed`.
   */
  save(id: VmId, path: string, signal: AbortSignal): Promise<SavingMonitor>
  /** Resolves when a monitor that was started to restore a guest has it whole, standing still. `restore_failed`. */
  ensureRestored(id: VmId, signal: AbortSignal): Promise<void>
  /** Tells a guest that was restored what time it is, where an agent in it listens; does not wait, and never fails. */
  tellTime(id: VmId): void
  /**
   * Asks an agent in the running guest to flush and freeze its file systems. Where none listens, it would not or could not
   * within `freezeMs`, or on abort, it is asked to thaw what it froze. Who froze them thaws them: a guest that is not thawed
   * waits for ever. Never fails.
   */
  freezeFileSystems(id: VmId, signal: AbortSignal): Promise<FreezeOutcome>
  /**
   * Whether none is frozen any more: an agent said so, or the guest is over. False where nobody listens, or says so within
   * `freezeMs`, since the guest stands still or the agent is at something else, and on abort: ask again later. Harmless where
   * none was frozen. Never fails.
   */
  thawFileSystems(id: VmId, signal: AbortSignal): Promise<boolean>
  diskCounters(id: VmId): Promise<DiskCounters>
  /** Calls back when a guest's run state changed. */
  watch(onChange: (id: VmId) => void): void
}
