import type { MonitorState } from '../core/plan/world.ts'
import type { MonitorCapabilities } from '../core/unit/capabilities.ts'
import type { MachineSpec } from '../core/unit/machine-spec.ts'
import type { UnitSpec } from '../core/unit/unit-spec.ts'
import type { VmId } from '../core/vm/ids.ts'

/** The program that runs a guest, spoken to over its control socket. Throws HostFault. */
export interface Monitor {
  readonly capabilities: MonitorCapabilities
  /** The command and sandbox that run this machine. Pure. */
  unitSpec(machine: MachineSpec): UnitSpec
  /** `silent` where nothing answers on the socket; the caller knows from the unit what that means. */
  inspect(id: VmId): Promise<MonitorState>
  ensureRunning(id: VmId, signal: AbortSignal): Promise<void>
  ensurePaused(id: VmId, signal: AbortSignal): Promise<void>
  /** Calls back when a guest's run state changed. */
  watch(onChange: (id: VmId) => void): void
}
