import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { standingOf } from '../../core/snapshot/standing.ts'
import { needsUrls } from '../../core/snapshot/work.ts'
import { errorChain } from '../../log/error-chain.ts'
import { inLogContext } from '../../log/log-context.ts'
import { freeParts } from './free-parts.ts'
import { fieldsOf } from './log-fields.ts'
import type { SnapshotId, SnapshotRecord, StagingId } from '../../core/snapshot/record.ts'
import type { LogContext } from '../../log/log-context.ts'
import type { SnapshotsContext } from './context.ts'

export type SweepOptions = Pick<SnapshotsContext, 'store' | 'host' | 'room' | 'log'> & {
  readonly maxAgeMs: number
  /** When the owner started: a controller could move nothing while no daemon ran, and is given a while to do so. */
  readonly startedAtMs: number
  /** A course works with it, or is about to remove it. */
  readonly isInUse: (stagingId: StagingId) => boolean
  readonly fail: (id: SnapshotId, message: string) => void
  /** For the lines about staging whose snapshot was deleted; undefined if an earlier daemon was asked for that. */
  readonly deletionFields: (stagingId: StagingId) => LogContext | undefined
}

/**
 * Makes staging what the records say: gives up what is stale, and what must go for the quota; then removes what is nobody's,
 * and frees what is of no use. A record says so before it is done, so one that says "staged" is right after any crash. Answers
 * false when the pool failed: nothing is concluded from a listing that failed.
 */
export async function sweepStaging(options: SweepOptions): Promise<boolean> {
  const { store, host, room, log, isInUse } = options
  try {
    failStale(options)
    shedStale(options)
    const listed = await host.staging.list()
    for (const record of toShed(options)) shed(options, record, 'another snapshot needs the room')
    // Read after the listing, so that there is a record of all that is needed; and none comes back, for no id is used again.
    const needed = neededNow(store)
    // What is not flushed, a loss of power takes back: a deletion, or that a record gave its staging up.
    await store.flushed()
    for (const { stagingId } of listed) {
      if (needed.has(stagingId) || isInUse(stagingId)) continue
      await inLogContext(fieldsOfStaging(options, stagingId), () => {
        log.info({ staging_id: stagingId }, 'removing staging that is of no use any more')
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
    if (!(error instanceof HostFault)) throw error
    log.warn({ code: error.code, error: errorChain(error) }, 'staging was not swept')
    return false
  }
}

function fieldsOfStaging({ store, deletionFields }: SweepOptions, stagingId: StagingId): LogContext {
  const record = store.snapshots.ofStaging(stagingId)
  return (record && fieldsOf(record)) ?? deletionFields(stagingId) ?? {}
}

/** All whose staging is needed, or kept until somebody else needs the room. */
function neededNow({ snapshots }: SweepOptions['store']): ReadonlyMap<StagingId, SnapshotRecord> {
  return new Map([...snapshots.open(), ...snapshots.kept()].map((record) => [record.stagingId, record]))
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

/** Completed ones wait for a deletion alone: a restart gives them no more time. */
function shedStale(options: SweepOptions): void {
  const { store, host, maxAgeMs } = options
  for (const record of store.snapshots.kept())
    if (host.clock.now() - record.lastActivityAtMs >= maxAgeMs) shed(options, record, 'it is stale')
}

/** What must go for the quota, and for the first that waits for room. No more: what goes already counts. */
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
  log.info({ ...fieldsOf(record), ...words }, 'staging of what was sent given up')
}

/** Again at each sweep: whether an earlier try came to its end is nowhere on record. */
async function freeSent({ store, host, room }: SweepOptions, record: SnapshotRecord): Promise<void> {
  const { id, stagingId, staged } = record
  if (staged.isWhole) return
  const sent = store.snapshots.parts(id).filter(({ etag }) => etag !== undefined)
  await freeParts(host.staging, stagingId, sent)
  const now = store.snapshots.get(id)
  if (now?.stagingId === stagingId) room.set(stagingId, now.staged.bytes)
}
