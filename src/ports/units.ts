import type { UnitState } from '../core/plan/world.ts'
import type { UnitSpec } from '../core/unit/unit-spec.ts'
import type { VmId } from '../core/vm/ids.ts'

/** The init system's units, one a VM (`vmhost-<id>.service`). Methods with a promise throw HostFault. */
export interface Units {
  inspect(id: VmId): Promise<UnitState>
  /** Resolves when the unit is active, that is: the program was executed. Does nothing where it already is. */
  ensureStarted(id: VmId, spec: UnitSpec, signal: AbortSignal): Promise<void>
  /** A start is likely within milliseconds: what it would wait for begins now. Never fails; nothing stays where none follows. */
  expectStart(): void
  /** Kills the unit's processes and resolves when none is left; forgets a failed unit. */
  ensureStopped(id: VmId, signal: AbortSignal): Promise<void>
  /** Every loaded unit of our naming scheme, with its state and the store it belongs to. */
  list(): Promise<
    readonly { readonly id: VmId; readonly state: UnitState; readonly storeId: string | undefined }[]
  >
  /** Ids of the units of our naming scheme that are active; one question, however many there are. */
  active(): Promise<readonly VmId[]>
  /** Calls back when a unit changed, or with undefined when anything may have (the bus came back). */
  watch(onChange: (id: VmId | undefined) => void): void
}
