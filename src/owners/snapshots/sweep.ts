import { limits } from '../../config/limits.ts'
import { standingOf, needsUrls } from '../../core/snapshots/work.ts'
import { inLogContext, warnOfFault } from '../../log/log.ts'
import { freeParts } from './free-parts.ts'
import { fieldsOf } from './context.ts'
import type { SnapshotId, SnapshotRecord, StagingId } from '../../core/snapshots/record.ts'
import type { LogContext } from '../../log/log.ts'
import type { UnchangedSince } from '../../lib/unchanged-since.ts'
import type { Staged } from '../../ports/staging.ts'
import type { SnapshotsContext } from './context.ts'

export type SweepOptions = Pick<SnapshotsContext, 'store' | 'host' | 'room' | 'log'> & {
  readonly maxAgeMs: number
  /** The last activity of each snapshot, by the sweeps of this process. */
  readonly sightings: UnchangedSince<SnapshotId, number>
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
  const { store, host, room, log } = options
  try {
    room.admit()
    failStale(options)
    shedStale(options)
    // What is packed from here on may be missing in the listing.
    const counted = room.counted()
    const listed = await host.staging.list()
    for (const record of toShed(options)) shed(options, record, 'another snapshot needs the room')
    // Read after the listing, so that everything needed has a record. No record comes back, because no id is used
    // again.
    const needed = neededNow(store)
    // A loss of power takes unflushed changes back: a deletion, or a record that gave up its staging.
    await store.flushed()
    const { left, isDone } = await sweepListed(options, listed, needed)
    for (const stagingId of counted)
      if (!needed.has(stagingId) && !left.has(stagingId)) room.set(stagingId, 0)
    return isDone
  } catch (error) {
    warnOfFault(log, error, 'staging sweep failed')
    return false
  }
}

/** Staging that the sweep did not remove, and whether it did all that it had to. */
type Swept = { readonly left: ReadonlySet<StagingId>; readonly isDone: boolean }

async function sweepListed(
  options: SweepOptions,
  listed: readonly Staged[],
  needed: ReadonlyMap<StagingId, SnapshotRecord>,
): Promise<Swept> {
  const left = new Set<StagingId>()
  let isDone = true
  for (const staging of listed) {
    const { stagingId } = staging
    const record = needed.get(stagingId)
    if (record === undefined && options.isInUse(stagingId)) {
      // Its course removes it, or asks for another sweep if that fails.
      left.add(stagingId)
      continue
    }
    const fields = record === undefined ? fieldsOfStaging(options, stagingId) : fieldsOf(record)
    if (await inLogContext(fields, () => sweepOne(options, staging, record))) continue
    left.add(stagingId)
    isDone = false
  }
  return { left, isDone }
}

/**
 * Removes staging without a record, or frees what its record does not need. Returns false if that failed: one that
 * cannot be removed must not keep the others.
 */
async function sweepOne(
  options: SweepOptions,
  { stagingId, cloneBytes }: Staged,
  record: SnapshotRecord | undefined,
): Promise<boolean> {
  const { host, log } = options
  try {
    if (record === undefined) {
      log.info({ staging_id: stagingId }, 'removing unused staging')
      await host.staging.remove(stagingId)
    } else {
      await freeSent(options, record)
      if (record.sha256 !== undefined && cloneBytes > 0) await host.staging.removeClone(stagingId)
    }
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
 * the daemon is not activity. A part of that time must have passed while this daemon ran, and by the clock that cannot
 * be set: a controller could do nothing while no daemon ran.
 */
function failStale({ store, host, fail, maxAgeMs, sightings }: SweepOptions): void {
  const open = store.snapshots.open()
  sightings.keepOnly(new Set(open.map(({ id }) => id)))
  const graceMs = Math.min(limits.stagingGraceMs, maxAgeMs)
  for (const record of open) {
    const watchedMs = sightings.note(record.id, record.lastActivityAtMs, host.clock.monotonicMs())
    // The clock may have been ahead at the last activity.
    const ageMs = Math.max(watchedMs, host.clock.now() - record.lastActivityAtMs)
    const isOld = ageMs >= maxAgeMs && watchedMs >= graceMs
    if (!isOld || record.capture === undefined) continue
    const { lacks } = standingOf(record, store.snapshots.tally(record))
    // The trouble of a failed one says why it failed.
    const waits = record.trouble !== undefined || needsUrls(lacks)
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
  // A part may be freed only when the record says on the disk that it was sent.
  await store.flushed()
  await freeParts(host.staging, stagingId, sent)
  const now = store.snapshots.get(id)
  if (now?.stagingId === stagingId) room.set(stagingId, now.staged.bytes)
}
