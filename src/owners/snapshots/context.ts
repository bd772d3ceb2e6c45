import type { VmId } from '../../core/ids.ts'
import type { FairPlaces } from '../../lib/fair-places.ts'
import type { Semaphore } from '../../lib/semaphore.ts'
import type { Log, LogContext } from '../../log/log.ts'
import type { Host } from '../../ports/host.ts'
import type { Store } from '../../store/store.ts'
import type { BetweenPasses } from '../between-passes.ts'
import type { SnapshotEntry } from './entry.ts'
import type { StagingRoom } from './staging-room.ts'
import type { SnapshotRecord } from '../../core/snapshots/record.ts'

/** Holds what the courses of all snapshots share. */
export type SnapshotsContext = {
  readonly store: Pick<Store, 'snapshots' | 'vms' | 'frozenGuests' | 'transaction' | 'flushed'>
  readonly host: Pick<
    Host,
    'units' | 'monitors' | 'storage' | 'savedStates' | 'staging' | 'objectStore' | 'clock' | 'storeId'
  >
  readonly betweenPasses: BetweenPasses
  /** Limits flushes to the pool before and after captures, at the same time. */
  readonly flushes: Semaphore
  /** Limits VMs whose passes wait for a capture at the same time. */
  readonly captures: Semaphore
  /** Notes that the guest may be frozen and must be thawed later. */
  readonly thawLater: (id: VmId) => void
  /** Limits snapshots whose packing has begun at the same time. */
  readonly openPacks: Semaphore
  /** Limits those of them that are packed at the same time, and do not wait for room. */
  readonly packs: Semaphore
  /** Limits parts that are sent at the same time, fairly among stores, and among the snapshots of each. */
  readonly uploads: FairPlaces
  readonly room: StagingRoom
  readonly log: Log
}

/** The context of each action of a course. */
export type Task = SnapshotsContext & {
  readonly entry: SnapshotEntry
  /** Aborts when the course ends. */
  readonly signal: AbortSignal
  /** Reports that the record has changed, so that there may be more to do. */
  readonly look: () => void
}

/** Returns the fields of every log line about a snapshot; the operation is that of its newest request. */
export const fieldsOf = ({
  id,
  vmId,
  operationId,
}: Pick<SnapshotRecord, 'id' | 'vmId' | 'operationId'>): LogContext => ({
  snapshot_id: id,
  vm_id: vmId,
  operation_id: operationId,
})
