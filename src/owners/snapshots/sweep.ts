import { limits } from '../../config/limits.ts'
import { standingOf, needsUrls } from '../../core/snapshots/work.ts'
import { inLogContext, warnOfFault } from '../../log/log.ts'
import { freeParts } from './send.ts'
import { fieldsOf } from './context.ts'
import type { SnapshotId, SnapshotRecord, StagingId } from '../../core/snapshots/record.ts'
import type { LogContext } from '../../log/log.ts'
import type { SnapshotsContext } from './context.ts'

export type SweepOptions = Pick<SnapshotsContext, 'store' | 'host' | 'room' | 'log'> & {
  readonly maxAgeMs: number
  /** Time when the owner started. A controller could do nothing while no daemon ran, so it gets some time to act. */
  readonly startedAtMs: number
  /** Whether a course works with the staging, or is about to remove it. */
  readonly isInUse: (stagingId: StagingId) => boolean
  readonly fail: (id: SnapshotId, message: string) => void
  /**
   * Returns the log fields for staging whose snapshot was deleted; undefined if an earlier daemon handled the deletion.
   */
  readonly deletionFields: (stagingId: StagingId) => LogContext | undefined
}

/**
 * Makes staging match the records. It gives up what is stale, and what the quota does not allow; then it removes
 * staging without a snapshot, and frees unneeded parts. A record changes before its staging does, so a record that says
 * "staged" is right after any crash. Returns false when the pool failed, because a failed listing proves nothing.
 */
export async function sweepStaging(options: SweepOptions): Promise<boolean> {
  const { store, host, room, log, isInUse } = options
  try {
    failStale(options)
    shedStale(options)
    const listed = await host.staging.list()
    for (const record of toShed(options)) shed(options, record, 'another snapshot needs the room')
    // Read after the listing, so that everything needed has a record. No record comes back, because no id is used
    // again.
    const needed = neededNow(store)
    // A loss of power takes unflushed changes back: a deletion, or a record that gave up its staging.
    await store.flushed()
    for (const { stagingId } of listed) {
      if (needed.has(stagingId) || isInUse(stagingId)) continue
      await inLogContext(fieldsOfStaging(options, stagingId), () => {
        log.info({ staging_id: stagingId }, 'removing unused staging')
        return host.staging.remove(stagingId)
      })
    }
    for (const { stagingId, cloneBytes } of listed) {
      const record = needed.get(stagingId)
      if (record === undefined) continue
      await inLogContext(fieldsOf(record), async () => {
        await freeSent(options, record)
        if (record.sha256 !== undefined && cloneBytes > 0) await host.staging.removeClone(stagingId)
      })
    }
    room.keep((stagingId) => needed.has(stagingId) || isInUse(stagingId))
    return true
  } catch (error) {
    warnOfFault(log, error, 'staging sweep failed')
    return false
  }
}

function fieldsOfStaging({ store, deletionFields }: SweepOptions, stagingId: StagingId): LogContext {
  const record = store.snapshots.ofStaging(stagingId)
  return (record && fieldsOf(record)) ?? deletionFields(stagingId) ?? {}
}

/** Returns the snapshots whose staging is needed, or kept until another snapshot needs the room. */
function neededNow({ snapshots }: SweepOptions['store']): ReadonlyMap<StagingId, SnapshotRecord> {
  return new Map([...snapshots.open(), ...snapshots.kept()].map((record) => [record.stagingId, record]))
}

/**
 * Fails staged snapshots that wait for the controller or a store, and have had no activity for too long. A restart of
 * the daemon is not activity.
 */
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

/**
 * Gives up stale staging of completed snapshots. They only wait for their deletion, so a restart gives them no extra
 * time.
 */
function shedStale(options: SweepOptions): void {
  const { store, host, maxAgeMs } = options
  for (const record of store.snapshots.kept())
    if (host.clock.now() - record.lastActivityAtMs >= maxAgeMs) shed(options, record, 'it is stale')
}

/**
 * Returns the snapshots to shed for the quota and for the first waiting pack, and not more. Staging that will be freed
 * soon already counts as free.
 */
export function toShed({ store, room }: Pick<SweepOptions, 'store' | 'room'>): readonly SnapshotRecord[] {
  const sheddable = room.lackingBytes() === 0 ? [] : store.snapshots.sheddable()
  if (sheddable.length === 0) return []
  const needed = neededNow(store)
  let lackingBytes = room.lackingBytes() - room.goingBytes((id) => needed.get(id)?.staged.bytes ?? 0)
  const records: SnapshotRecord[] = []
  for (const record of sheddable) {
    if (lackingBytes <= 0) break
    lackingBytes -= store.snapshots.sentBytes(record.id)
    records.push(record)
  }
  return records
}

function shed({ store, host, log }: SweepOptions, record: SnapshotRecord, because: string): void {
  const { staged } = store.snapshots.shed(record.id, host.clock.now())
  const words = { stage: record.stage, because, bytes: record.staged.bytes - staged.bytes }
  log.info({ ...fieldsOf(record), ...words }, 'sent parts removed from staging')
}

/** Frees sent parts. It runs at each sweep, because no record shows whether an earlier try finished. */
async function freeSent({ store, host, room }: SweepOptions, record: SnapshotRecord): Promise<void> {
  const { id, stagingId, staged } = record
  if (staged.isWhole) return
  const sent = store.snapshots.parts(id).filter(({ etag }) => etag !== undefined)
  await freeParts(host.staging, stagingId, sent)
  const now = store.snapshots.get(id)
  if (now?.stagingId === stagingId) room.set(stagingId, now.staged.bytes)
}
