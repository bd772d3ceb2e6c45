import type { Resident } from '../core/capacity/resident.ts'
import type { UnitState } from '../core/world/world.ts'
import type { UnitSpec } from '../core/unit/unit-spec.ts'
import type { VmId } from '../core/ids.ts'

/** The init system's units, one for each VM (`vmhost-<id>.service`). Methods with a promise throw HostFault. */
export interface Units {
  inspect(id: VmId): Promise<UnitState>
  /** Resolves when the unit is active, which means that its program was executed. Does nothing if it already is. */
  ensureStarted(id: VmId, spec: UnitSpec, signal: AbortSignal): Promise<void>
  /** Prepares for a start that is likely within milliseconds. Never fails; nothing remains if no start follows. */
  expectStart(): void
  /** Kills the unit's processes and resolves when none is left; clears a failed unit. */
  ensureStopped(id: VmId, signal: AbortSignal): Promise<void>
  /**
   * Removes what the host still has for a VM whose unit is gone, for example because its program ended. Never fails.
   */
  forget(id: VmId): void
  /**
   * Every loaded unit of our naming scheme except these, with its state and the store it belongs to; some requests for
   * each.
   */
  list(
    except?: ReadonlySet<VmId>,
  ): Promise<
    readonly { readonly id: VmId; readonly state: UnitState; readonly storeId: string | undefined }[]
  >
  /** Ids of the units of our naming scheme that are active; one request, however many there are. */
  active(): Promise<readonly VmId[]>
  /**
   * Measures the memory that these units have on the host now, with two cheap reads for each. A unit without a process
   * is left out. Throws `capacity_unknown`.
   */
  resident(ids: readonly VmId[]): Promise<ReadonlyMap<VmId, Resident>>
  /**
   * Reads the CPU time that the processes of these units have used since each unit was started, in microseconds, with
   * one cheap read for each. A unit without a control group is left out, and so are all if the kernel does not count
   * for each (cgroup v1). Throws `capacity_unknown`.
   */
  cpuTime(ids: readonly VmId[]): Promise<ReadonlyMap<VmId, number>>
  /** Calls back when a unit changed; with undefined when any unit may have changed (the bus came back). */
  watch(onChange: (id: VmId | undefined) => void): void
}
