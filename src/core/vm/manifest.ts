import { given } from '../../lib/given.ts'
import { hasEnded } from './exit-policy.ts'
import type { Compute, Desired, Disk, Network } from '../desired.ts'
import type { VmId } from '../ids.ts'
import type { MonitorKind } from '../monitor/monitor-kind.ts'
import type { Processor } from '../monitor/processor.ts'
import type { ArrivalId, Departure, DepartureStage, GuestPower } from '../migration/departure.ts'
import type { MigrationId, MigrationMode } from '../migration/offer.ts'
import type { VmInputs } from './create.ts'
import type { Metadata, VmRecord } from './record.ts'
import type { MovedMemory, SavingMonitor } from '../world/saved-state.ts'

/** All that belongs to a VM, and not to the host that has it. It carries user data and keys. */
export type MovingVm = {
  readonly desired: Omit<Desired, 'migration'>
  readonly monitor: MonitorKind
  readonly metadata: Metadata
  /** A part of the guest's instance id on its seed disk. Milliseconds since the epoch. */
  readonly createdAtMs: number
  readonly inputs: Omit<VmInputs, 'sources'>
  /** Fingerprint that is pinned for ssh consoles; absent if none is. */
  readonly sshHostKey?: string
  /** The public key of the source's daemon. The seed disk has it, and must not change under the guest. */
  readonly daemonSshKey: string
  readonly lastTrafficAtMs?: number
  readonly keepAwakeUntilMs?: number
  readonly exitStreak: number
  /** The guest has ended for good, although its power is still as it was; absent: it has not. */
  readonly ended?: true
}

/** A VM that is offered to another host: what that host must know before anything moves. */
export type Manifest = {
  readonly migrationId: MigrationId
  readonly vmId: VmId
  readonly stage: DepartureStage
  readonly mode: MigrationMode
  /** How the guest lives now; from the handover on, how it lived before. */
  readonly power: GuestPower
  readonly monitor: SavingMonitor
  /** The processor that the guest sees. */
  readonly processor: Processor
  readonly compute: Compute
  readonly disk: Disk
  /** Absent: the VM has no network device. */
  readonly network?: Network
  /** Absent once a request has withdrawn the offer. */
  readonly expiresAtMs?: number
  readonly vm: MovingVm
}

/** An offer that was read from its source, and the name of this attempt to take it. */
export type Offered = { readonly manifest: Manifest; readonly arrivalId: ArrivalId }

/** How far a handover is. While its stage is `handing_over`, the destination must ask again. */
export type HandOver = {
  readonly stage: DepartureStage
  /** Number of the round of the saved guest's disk. */
  readonly lastRound?: number
  /** Absent if the guest moves with its disk alone. */
  readonly memory?: MovedMemory
}

/** Returns whether a guest that lives like this moves with its memory. While `power` is not known, it may. */
export const movesWithMemory = ({
  mode,
  power,
}: {
  readonly mode: MigrationMode
  readonly power: GuestPower | undefined
}): boolean => mode === 'live' && power !== 'stopped'

/** The parts of a manifest that the record does not have. */
export type ManifestNeeds = Pick<MovingVm, 'inputs' | 'sshHostKey' | 'daemonSshKey'> & {
  /** The program that has, or would start, the guest. */
  readonly monitor: SavingMonitor
  readonly processor: Processor
}

/** Returns what a node may know of a VM that is offered to it. */
export function manifestOf(record: VmRecord, departure: Departure, needs: ManifestNeeds): Manifest {
  const { migration, ...desired } = record.desired
  const { compute, disk, network } = desired
  const { monitor, processor, inputs, sshHostKey, daemonSshKey } = needs
  const { request, userData, sshAuthorizedKeys } = inputs
  return {
    migrationId: departure.id,
    vmId: record.id,
    stage: departure.stage,
    mode: departure.mode,
    power: departure.lived ?? powerOf(record),
    monitor,
    processor,
    compute,
    disk,
    ...given({ network, expiresAtMs: migration?.expiresAtMs }),
    vm: {
      desired,
      monitor: record.monitor,
      metadata: record.metadata,
      createdAtMs: record.createdAtMs,
      inputs: { request, sshAuthorizedKeys, ...given({ userData }) },
      daemonSshKey,
      exitStreak: record.exitStreak,
      ...given({
        sshHostKey,
        lastTrafficAtMs: record.observed.lastTrafficAtMs,
        keepAwakeUntilMs: record.keepAwakeUntilMs,
        ended: hasEnded(record) || undefined,
      }),
    },
  }
}

/** Returns how the guest lived when it was last seen. One that has ended for good is as one that was stopped. */
export function powerOf(record: VmRecord): GuestPower {
  const { desired, observed, wake } = record
  const { power } = desired
  if (hasEnded(record)) return 'stopped'
  if (power !== 'running') return power
  return observed.savedState === undefined || wake !== undefined ? 'running' : 'sleeping'
}
