import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { standingOf } from '../../core/snapshot/standing.ts'
import { needsUrls } from '../../core/snapshot/work.ts'
import { errorChain } from '../../log/error-chain.ts'
import type { SnapshotId, StagingId } from '../../core/snapshot/record.ts'
import type { SnapshotsContext } from './context.ts'

export type SweepOptions = Pick<SnapshotsContext, 'store' | 'host' | 'room' | 'log'> & {
  readonly maxAgeMs: number
  /** When the owner started: a controller could move nothing while no daemon ran, and is given a while to do so. */
  readonly startedAtMs: number
  /** A course works with it, or is about to remove it. */
  readonly isInUse: (stagingId: StagingId) => boolean
  readonly fail: (id: SnapshotId, message: string) => void
}

/** Gives up what nobody moved for long, and removes staging that is nobody's. Nothing on a listing that failed. */
export async function sweepStaging(options: SweepOptions): Promise<void> {
  const { store, host, room, log, isInUse } = options
  try {
    failStale(options)
    const staged = await host.staging.list()
    // Read after the listing, so that there is a record of all that is needed; and none comes back, for no id is used again.
    const needed = new Set(store.snapshots.open().map(({ stagingId }) => stagingId))
    // A record that was deleted and not flushed would be there again after a loss of power.
    await store.flushed()
    for (const { stagingId } of staged.filter((found) => !needed.has(found.stagingId))) {
      if (isInUse(stagingId)) continue
      log.info({ staging_id: stagingId }, 'removing staging that is of no use any more')
      await host.staging.remove(stagingId)
    }
    room.keep((stagingId) => needed.has(stagingId) || isInUse(stagingId))
  } catch (error) {
    if (!(error instanceof HostFault)) throw error
    log.warn({ code: error.code, error: errorChain(error) }, 'staging was not swept')
  }
}

/** Of those that are staged and wait for the controller, or for a store, without any activity. Restarts of the daemon are none. */
function failStale({ store, host, fail, maxAgeMs, startedAtMs }: SweepOptions): void {
  const nowMs = host.clock.now()
  if (nowMs - startedAtMs < Math.min(limits.stagingGraceMs, maxAgeMs)) return
  for (const record of store.snapshots.open()) {
    const ageMs = nowMs - record.lastActivityAtMs
    if (ageMs < maxAgeMs || record.capture === undefined) continue
    const { lacks } = standingOf(record, store.snapshots.tally(record))
    const waits = record.stage === 'failed' || record.trouble !== undefined || needsUrls(lacks)
    if (waits) fail(record.id, `nothing moved since ${new Date(record.lastActivityAtMs).toISOString()}`)
  }
}
