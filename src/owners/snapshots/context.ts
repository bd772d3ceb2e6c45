import type { VmId } from '../../core/vm/ids.ts'
import type { Semaphore } from '../../lib/semaphore.ts'
import type { Log } from '../../log/log.ts'
import type { Host } from '../../ports/host.ts'
import type { Store } from '../../store/store.ts'
import type { SnapshotEntry } from './entry.ts'
import type { StagingRoom } from './staging-room.ts'
import type { UploadPlaces } from './upload-places.ts'

/** Runs a task while nobody else acts for the VM; undefined where nobody acts for it at all. The signal asks it to end soon. */
export type HoldStill = <T>(id: VmId, task: (signal: AbortSignal) => Promise<T>) => Promise<T | undefined>

/** What the courses of all snapshots share. */
export type SnapshotsContext = {
  readonly store: Pick<Store, 'snapshots' | 'vms' | 'frozenGuests' | 'transaction' | 'flushed'>
  readonly host: Pick<
    Host,
    'units' | 'monitor' | 'storage' | 'savedStates' | 'staging' | 'objectStore' | 'clock' | 'storeId'
  >
  readonly holdStill: HoldStill
  /** What is flushed to the pool at the same time before and after captures. */
  readonly flushes: Semaphore
  /** VMs that are held still at the same time. */
  readonly captures: Semaphore
  /** The guest may be frozen, and is to be asked again. */
  readonly thawLater: (id: VmId) => void
  /** Snapshots that are packed at the same time. */
  readonly packs: Semaphore
  /** Parts of all snapshots that are under way at the same time. */
  readonly uploads: UploadPlaces
  readonly room: StagingRoom
  readonly log: Log
}

/** What everything is given that a course does. */
export type Task = SnapshotsContext & {
  readonly entry: SnapshotEntry
  /** Aborts when the course ends. */
  readonly signal: AbortSignal
  /** Something is on record that there is more to do for. */
  readonly look: () => void
}
