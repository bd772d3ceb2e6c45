import type { Compute, Disk, Network } from '../desired.ts'
import type { VmId } from '../ids.ts'
import type { DepartureStage } from '../migration/departure.ts'
import type { MigrationId, MigrationMode } from '../migration/offer.ts'
import type { SavingMonitor } from '../world/saved-state.ts'

/** How a guest lives at the host that offers it. */
export type GuestPower = (typeof GUEST_POWERS)[number]
export const GUEST_POWERS = ['running', 'sleeping', 'stopped', 'paused'] as const

/** A VM that is offered to another host: what that host must know before anything moves. */
export type Manifest = {
  readonly migrationId: MigrationId
  readonly vmId: VmId
  readonly stage: DepartureStage
  readonly mode: MigrationMode
  readonly power: GuestPower
  readonly monitor: SavingMonitor
  readonly compute: Compute
  readonly disk: Disk
  /** Absent: the VM has no network device. */
  readonly network?: Network
  readonly expiresAtMs: number
}
