import { given } from '../../lib/given.ts'
import type { Compute, Disk, Network } from '../desired.ts'
import type { VmId } from '../ids.ts'
import type { Departure, DepartureStage } from '../migration/departure.ts'
import type { MigrationId, MigrationMode } from '../migration/offer.ts'
import type { VmRecord } from './record.ts'
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
  /** Absent once a request has withdrawn the offer. */
  readonly expiresAtMs?: number
}

/** Returns what a node may know of a VM that is offered to it. `monitor`: the program that has, or would start, the guest. */
export function manifestOf(record: VmRecord, departure: Departure, monitor: SavingMonitor): Manifest {
  const { compute, disk, network, migration } = record.desired
  return {
    migrationId: departure.id,
    vmId: record.id,
    stage: departure.stage,
    mode: departure.mode,
    power: powerOf(record),
    monitor,
    compute,
    disk,
    ...given({ network, expiresAtMs: migration?.expiresAtMs }),
  }
}

/** Returns how the guest lived when it was last seen. */
function powerOf({ desired: { power }, observed }: VmRecord): GuestPower {
  if (power !== 'running') return power
  return observed.savedState === undefined ? 'running' : 'sleeping'
}
