import type { MonitorState } from '../core/world/world.ts'
import type { SavingMonitor } from '../core/world/saved-state.ts'
import type { MonitorCapabilities, MachineSpec } from '../core/monitor/machine-spec.ts'
import type { MonitorKind } from '../core/monitor/monitor-kind.ts'
import type { Processor } from '../core/monitor/processor.ts'
import type { UnitSpec } from '../core/unit/unit-spec.ts'
import type { DiskCounters } from '../core/world/counters.ts'
import type { DiskLimits } from '../core/desired.ts'
import type { DeviceName, UserId, VmId } from '../core/ids.ts'

/**
 * Result of a freeze. `none`: it certainly froze nothing in the guest. `unknown`: the request was sent, but its result
 * is not known; the guest may be frozen now or later.
 */
export type FreezeOutcome = 'frozen' | 'none' | 'unknown'

/** A guest that a monitor was started to restore. */
export type RestoredGuest = {
  readonly id: VmId
  readonly userId: UserId
  /** The file of the saved guest. */
  readonly path: string
  readonly memoryMib: number
  /** Its tap on this host, which had another name on a host that the guest was saved on; absent without network. */
  readonly tapDevice?: DeviceName
}

/** A guest that a monitor is to save. */
export type SavedGuest = Pick<RestoredGuest, 'id' | 'path' | 'memoryMib'> & {
  /** Whether the guest may run for a moment before, on this host; absent: it may not. */
  readonly mayRun?: boolean
}

/** The agents in guests that have one. None of these methods fails. */
export interface GuestAgent {
  /** Sends the current time to a restored guest, if an agent in it listens; does not wait. */
  setGuestTime(id: VmId): void
  /**
   * Asks an agent in the running guest to flush and freeze its file systems. If no agent listens, if it cannot do so
   * within `freezeMs`, or on abort, the agent is asked to thaw what it froze. The caller that froze a guest must thaw
   * it, or the guest stays frozen forever.
   */
  freeze(id: VmId, signal: AbortSignal): Promise<FreezeOutcome>
  /**
   * Returns true if nothing is frozen any more: an agent confirmed it, or the guest has ended. Returns false on abort,
   * and if no agent confirms it within `freezeMs` because the guest is paused or the agent is busy; ask again later.
   * Harmless if nothing was frozen.
   */
  thaw(id: VmId, signal: AbortSignal): Promise<boolean>
}

/** The program that runs a guest, reached over its control socket. Throws HostFault. */
export interface Monitor {
  readonly capabilities: MonitorCapabilities
  readonly agent: GuestAgent
  /** The memory that a monitor may take besides its guest, in MiB; its unit may not use more. Pure. */
  memoryMib(guestMib: number): number
  /** The command and sandbox that run this machine. Pure. */
  unitSpec(machine: MachineSpec): UnitSpec
  /** Returns `silent` if nothing answers on the socket; the caller knows from the unit what that means. */
  inspect(id: VmId): Promise<MonitorState>
  /**
   * Resumes a guest that waits for it. A guest that was saved is resumed too; a save that is under way ends. HostFault
   * `disk_io_error` if the guest stops again at once because its disk still fails, and `monitor_refused` if it is still
   * being restored.
   */
  ensureRunning(id: VmId, signal: AbortSignal): Promise<void>
  /**
   * Resumes a guest whose save is given up, as soon as the monitor can, which may be before the save has ended.
   * `ensureRunning` must follow, which ends it. Fails as that does.
   */
  resumeFromSave(id: VmId, signal: AbortSignal): Promise<void>
  /** Pauses a guest; a save that is under way ends. */
  ensurePaused(id: VmId, signal: AbortSignal): Promise<void>
  /** Grows the disk of the running guest to this size. */
  ensureDiskSize(id: VmId, sizeMib: number, signal: AbortSignal): Promise<void>
  /** Puts the disk's rate limits in force; an absent limit is lifted. */
  ensureDiskLimits(id: VmId, limits: DiskLimits, signal: AbortSignal): Promise<void>
  /**
   * The program that a start would run, as it is installed now. Its version is read again only if its file changed;
   * `monitor_missing`.
   */
  installed(): Promise<SavingMonitor>
  /** The processor that a guest sees here. */
  readonly processor: Processor
  /**
   * Writes the memory and devices of a paused guest to a file that its unit may write. Free memory is left out.
   * Resolves to the program that wrote it. On abort the guest stays paused, and the save may be under way until the
   * next call for the guest ends it. Writes nothing if the installed program could not restore the guest;
   * `save_failed`, `monitor_missing`. A guest that was saved before, and has not run since, may have to run for a
   * moment first; `save_failed` if it may not.
   */
  save(guest: SavedGuest, signal: AbortSignal): Promise<SavingMonitor>
  /** Resolves when a monitor that was started to restore a guest has it completely, paused. `restore_failed`. */
  ensureRestored(guest: RestoredGuest, signal: AbortSignal): Promise<void>
  /**
   * Asks the running guest to end by itself: by its agent, or as someone at the machine would, by the power button or
   * by Ctrl-Alt-Del. Resolves when it was asked; a guest may take any time, or ignore it. `monitor_refused` if there is
   * no way to ask. It may be asked again.
   */
  askToEnd(id: VmId, signal: AbortSignal): Promise<void>
  /**
   * Returns whether a program in the running guest listens as its agent. It does not prove that the agent obeys. A
   * guest that does not run may appear to have none.
   */
  agentListens(id: VmId): Promise<boolean>
  /** Resolves to undefined if this monitor does not count. */
  diskCounters(id: VmId): Promise<DiskCounters | undefined>
  /** Calls back when a guest's run state has changed. */
  watch(onChange: (id: VmId) => void): void
}

/** The driver of each kind. Both exist on every host; a program that is not installed fails with `monitor_missing`. */
export type Monitors = { readonly [K in MonitorKind]: Monitor }
