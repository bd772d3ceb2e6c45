import { NO_SHARES, ledgerOf } from '../../core/capacity/ledger.ts'
import { MAINTENANCE_STATES } from '../../core/maintenance/maintenance.ts'
import { metrics } from '../../core/metrics/catalogue.ts'
import { readStagingUse } from '../capacity/staging-use.ts'
import { takeConsoleCensus } from '../console/console-census.ts'
import { gapIn } from './gaps.ts'
import { limits } from '../../config/limits.ts'
import { SNAPSHOT_STAGES } from '../../core/snapshots/record.ts'
import { MIB } from '../../lib/byte-units.ts'
import type { HostFault } from '../../core/errors.ts'
import type { Probe } from '../../core/world/world.ts'
import type { Result } from '../../lib/result.ts'
import type { Consoles } from '../../ports/consoles.ts'
import type { Staging } from '../../ports/staging.ts'
import type { Units } from '../../ports/units.ts'
import type { Store } from '../../store/store.ts'
import type { HostInspector } from '../capacity/host-inspector.ts'
import type { Gap } from './gaps.ts'
import type { Samples } from './samples.ts'

const bytes = (mib: number | undefined): number | undefined => (mib === undefined ? undefined : mib * MIB)

export type HostSources = {
  readonly store: Store
  readonly inspector: Pick<
    HostInspector,
    'look' | 'allocatable' | 'poolShares' | 'memoryTerms' | 'stagingQuotaMib'
  >
  readonly units: Pick<Units, 'active' | 'resident' | 'cpuTime'>
  readonly consoles: Pick<Consoles, 'stored' | 'places'>
  readonly staging: Pick<Staging, 'list'>
  /** Returns the room of a directory's file system for others than root, in MiB. */
  readonly availableMibIn: (directory: string) => number
  /** Returns whether stored descriptors survive a stop of the daemon. Throws HostFault. */
  readonly isDescriptorStoreAvailable: () => Promise<boolean>
}

/** Collects the figures of the host. Throws the first HostFault, after everything that is known. */
export async function collectHost(
  { inspector, store, availableMibIn }: HostSources,
  samples: Samples,
): Promise<void> {
  samples.add(metrics.recordsAvailable, availableMibIn(store.directory) * MIB)
  const { cpus, memory, pool } = await inspector.look()
  if (cpus.ok) samples.add(metrics.hostCpus, cpus.value)
  if (memory.ok) {
    samples.add(metrics.hostMemory, memory.value.totalMib * MIB)
    samples.add(metrics.hostMemoryAvailable, memory.value.availableMib * MIB)
  }
  if (pool.ok) {
    samples.add(metrics.poolSize, pool.value.totalMib * MIB)
    samples.add(metrics.poolAvailable, pool.value.availableMib * MIB)
  }
  throwFault(cpus, memory, pool)
}

function throwFault(...seen: readonly Result<unknown, HostFault>[]): void {
  for (const one of seen) if (!one.ok) throw one.error
}

/** Collects what is desired of the host, and what is promised. Returns the first part that is not known. */
export async function collectLedger(
  { store, inspector }: HostSources,
  samples: Samples,
): Promise<Gap | undefined> {
  const present = store.maintenance.get().state
  for (const state of MAINTENANCE_STATES)
    samples.add(metrics.maintenance, state === present ? 1 : 0, { state })
  const recorded = store.vms.recorded()
  const shares = inspector.poolShares()
  const ledger = ledgerOf(recorded, shares.known ? shares.value : NO_SHARES, inspector.memoryTerms())
  samples.add(metrics.memoryCommitted, ledger.guestsMib * MIB, { part: 'guests' })
  samples.add(metrics.memoryCommitted, ledger.monitorsMib * MIB, { part: 'monitors' })
  samples.add(metrics.diskCommitted, ledger.disksMib * MIB, { part: 'disks' })
  samples.add(metrics.diskCommitted, ledger.savedMib * MIB, { part: 'saved' })
  if (shares.known) {
    samples.add(metrics.diskCommitted, ledger.imagesMib * MIB, { part: 'images' })
    samples.add(metrics.diskCommitted, ledger.stagingMib * MIB, { part: 'staging' })
  }
  samples.add(metrics.cpusCommitted, recorded.cpuMillicores / 1000)
  samples.add(metrics.memoryQueue, store.memoryLoans.queue().length)
  const { memoryMib, diskMib } = inspector.allocatable()
  samples.add(metrics.memoryAllocatable, bytes(valueOf(memoryMib)))
  samples.add(metrics.diskAllocatable, bytes(valueOf(diskMib)))
  return gapIn(shares, memoryMib, diskMib)
}

const valueOf = (seen: Probe<number>): number | undefined => (seen.known ? seen.value : undefined)

/** Collects how systemd keeps the consoles. Throws HostFault. */
export async function collectConsoles(sources: HostSources, samples: Samples): Promise<void> {
  samples.add(metrics.descriptorStore, (await sources.isDescriptorStoreAvailable()) ? 1 : 0)
  const { total, free } = await sources.consoles.places()
  samples.add(metrics.consolePlaces, total)
  samples.add(metrics.consolePlacesFree, free)
  const { unprotected } = await takeConsoleCensus(sources)
  samples.add(metrics.consolesUnprotected, unprotected.length)
}

/** Collects snapshots and their staging. Throws HostFault. */
export async function collectStaging(sources: HostSources, samples: Samples): Promise<void> {
  const { store, inspector } = sources
  const byStage = new Map<string, number>()
  for (const { stage } of store.snapshots.list({ limit: limits.snapshotsMax }))
    byStage.set(stage, (byStage.get(stage) ?? 0) + 1)
  for (const stage of SNAPSHOT_STAGES) samples.add(metrics.snapshots, byStage.get(stage) ?? 0, { stage })
  samples.add(metrics.stagingQuota, inspector.stagingQuotaMib() * MIB)
  const { packedBytes, sentBytes, cloneBytes } = await readStagingUse(sources)
  samples.add(metrics.stagingPacked, packedBytes)
  samples.add(metrics.stagingSent, sentBytes)
  samples.add(metrics.stagingClones, cloneBytes)
}
