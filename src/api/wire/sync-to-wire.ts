import { snapshotSummaryToWire } from './snapshot-to-wire.ts'
import { totalsOf } from '../../core/capacity/ledger.ts'
import { given } from '../../lib/given.ts'
import { toWire } from './member-mapper.ts'
import { shownText, time } from './values.ts'
import { vmStateToWire } from './vm-state.ts'
import { mibUp } from '../../lib/byte-units.ts'
import type { HostView } from '../../owners/capacity/host-report.ts'
import type { VmSummary } from '../../core/vm/record.ts'
import { maintenanceToWire } from './maintenance.ts'
import type { Hindrance } from '../../core/errors.ts'
import type { Maintenance } from '../../core/maintenance/maintenance.ts'
import type { CertificateName, SyncWire } from './sync.ts'

const monitorToWire = ({
  isOffered,
  isDefault,
  ...monitor
}: HostView['host']['machine']['monitors'][number]) => ({
  ...monitor,
  offered: isOffered,
  default: isDefault,
})

const MILLICORES_A_CPU = 1000

/** A certificate and when it expires. */
export type CertificateSight = { readonly name: CertificateName; readonly notAfterMs: number }

/** State of a revocation list. */
type RevocationSight = { readonly revoked: number; readonly nextUpdateMs?: number }

/** A certificate of a client that connected lately. */
type ClientSight = {
  readonly commonName: string
  readonly role: SyncWire['host']['clients'][number]['role']
  readonly serial: string
  readonly notAfterMs: number
  readonly seenMs: number
}

/** The members of the answer that are not in the host view. */
type Beside = {
  readonly clients: readonly ClientSight[]
  readonly certificates: readonly CertificateSight[]
  readonly revocations: RevocationSight | undefined
  readonly maintenance: Maintenance
  readonly faults: readonly Hindrance[]
}

const clientToWire = toWire<ClientSight, SyncWire['host']['clients'][number]>()({
  commonName: ['name', (name) => name],
  notAfterMs: ['not_after', time],
  seenMs: ['seen_at', time],
})

const faultToWire = ({ code, message }: Hindrance) => ({ code, detail: shownText(message) })

const revocationsToWire = ({ revoked, nextUpdateMs }: RevocationSight) => ({
  revoked,
  ...given({ next_update: nextUpdateMs === undefined ? undefined : time(nextUpdateMs) }),
})

/** The only translation of the host view to a response. */
export function syncToWire(
  view: HostView,
  { certificates, clients, revocations, maintenance, faults }: Beside,
): SyncWire {
  const { host, images, consoles } = view
  const { kernel, architecture, monitors } = host.machine
  return {
    host: {
      id: host.id,
      boot_id: host.bootId,
      version: host.version,
      ssh_public_key: host.sshPublicKey,
      monitors: monitors.map(monitorToWire),
      kernel,
      architecture,
      clock: new Date(host.nowMs).toISOString(),
      maintenance: maintenanceToWire(maintenance),
      certificates: certificates.map(certificateToWire),
      clients: clients.map(clientToWire),
      ...given({
        faults: faults.length === 0 ? undefined : faults.map(faultToWire),
        revocation_list: revocations && revocationsToWire(revocations),
      }),
    },
    capacity: capacityToWire(view),
    vms: view.vms.map((summary) => summaryToWire(summary, view.resident?.each.get(summary.id))),
    snapshots: view.snapshots.map(snapshotSummaryToWire),
    staging: stagingToWire(view.staging),
    images: images.map(imageToWire),
    consoles: {
      protected: consoles.protected,
      running_units: consoles.runningUnits,
      descriptor_store_available: consoles.descriptorStoreAvailable,
      unprotected: [...consoles.unprotected],
      places_total: consoles.placesTotal,
      places_free: consoles.placesFree,
      places_held: view.committed.consolePlaces,
      places_held_max: view.allocatable.consolePlaces,
    },
  }
}

const stagingToWire = toWire<HostView['staging'], SyncWire['staging']>()({
  packedBytes: ['packed_mib', mibUp],
  sentBytes: ['sent_mib', mibUp],
  cloneBytes: ['clones_mib_max', mibUp],
})

const certificateToWire = toWire<CertificateSight, SyncWire['host']['certificates'][number]>()({
  notAfterMs: ['not_after', time],
})

function imageToWire({ sha256, sizeMib, use }: HostView['images'][number]): SyncWire['images'][number] {
  const { count, lastUsedAtMs } = use
  return {
    sha256,
    size_mib: sizeMib,
    use_count: count,
    ...(lastUsedAtMs === undefined ? {} : { last_used_at: time(lastUsedAtMs) }),
  }
}

function capacityToWire(view: HostView): SyncWire['capacity'] {
  const { cpus, memory, pool, committed, allocatable, memoryOfSleepers, resident } = view
  const { memoryMib, diskMib } = totalsOf(committed)
  return {
    cpu: { total_millicores: cpus * MILLICORES_A_CPU, committed_millicores: committed.cpuMillicores },
    memory: {
      total_mib: memory.totalMib,
      available_mib: memory.availableMib,
      committed_mib: memoryMib,
      committed_guests_mib: committed.guestsMib,
      committed_monitors_mib: committed.monitorsMib,
      allocatable_mib: allocatable.memoryMib,
      sleep_ratio: memoryOfSleepers.sleepRatio,
      held_mib: memoryOfSleepers.heldMib,
      waiting_vms: memoryOfSleepers.waitingVms,
      ...(resident === undefined
        ? {}
        : { resident_mib: resident.residentMib, not_resident_mib: resident.notResidentMib }),
    },
    disks: [
      {
        pool: pool.poolId,
        total_mib: pool.totalMib,
        available_mib: pool.availableMib,
        committed_mib: diskMib,
        committed_disks_mib: committed.disksMib,
        committed_saved_mib: committed.savedMib,
        committed_images_mib: committed.imagesMib,
        committed_staging_mib: committed.stagingMib,
        allocatable_mib: allocatable.diskMib,
      },
    ],
  }
}

const summaryToWire = (summary: VmSummary, resident_mib: number | undefined): SyncWire['vms'][number] => ({
  ...vmStateToWire(summary),
  ...given({ resident_mib }),
})
