import { isDeepStrictEqual } from 'node:util'
import { snapshotEvents } from '../../core/events/snapshot-events.ts'
import { isOver } from '../../core/snapshots/record.ts'
import { assert } from '../../lib/assert.ts'
import { partOf, resumedStage, snapshotOf, SnapshotTallies, stagesOf } from './snapshot-row.ts'
import { SnapshotUrlTable } from './snapshot-urls.ts'
import { Statements } from '../database/transactions.ts'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type {
  Capture,
  PackWait,
  PackedPart,
  PackPoint,
  SnapshotId,
  SnapshotPart,
  SnapshotRecord,
  SnapshotStage,
  SnapshotStatus,
  StagingId,
  Trouble,
  UrlsAtHand,
  SnapshotUrls,
  UrlPurpose,
} from '../../core/snapshots/record.ts'
import type { SnapshotTally } from '../../core/snapshots/work.ts'
import type { SignedUrl } from '../../core/outbound/signed-url.ts'
import type { OperationId, Sha256, VmId } from '../../core/ids.ts'
import type { EventTable } from '../events/event-table.ts'
import type { LogEmptying } from '../database/write-ahead-log.ts'
import type { Revisions } from '../database/revisions.ts'
import type { PartRow, SnapshotRow, WrittenSnapshot } from './snapshot-row.ts'
import type { Transactions } from '../database/transactions.ts'

export type NewSnapshot = {
  readonly id: SnapshotId
  readonly vmId: VmId
  /** Creation time of the VM, because another VM may take its id. */
  readonly vmCreatedAtMs: number
  readonly stagingId: StagingId
  readonly partMib: number
  readonly urls: SnapshotUrls
  readonly operationId: OperationId
  readonly nowMs: number
}

/** Changes that the owner of a snapshot writes back. Absent members stay as they are; `null` clears one. */
export type SnapshotChange = {
  readonly stage?: SnapshotStage
  readonly capture?: Capture
  readonly sha256?: Sha256
  readonly completionSent?: true
  readonly trouble?: Trouble | null
  readonly waitingFor?: PackWait | null
  readonly resumable?: boolean
  readonly nowMs: number
}

/** The answer of the store to a part, and the URL by which it was sent. */
type SentPart = { readonly etag: string; readonly url: SignedUrl }

export type SnapshotQuery = {
  readonly after?: SnapshotId
  readonly limit: number
  readonly status?: SnapshotStatus
  readonly vmId?: VmId
}

export type SnapshotTableOptions = {
  readonly revisions: Revisions
  readonly events: EventTable
  readonly log: LogEmptying
  readonly changed: (id: SnapshotId) => void
}

/** The table of snapshots. Every change of a snapshot raises its revision, and {@link Store.flushed} flushes it. */
export class SnapshotTable {
  readonly #transactions: Transactions
  readonly #revisions: Revisions
  readonly #urls: SnapshotUrlTable
  readonly #events: EventTable
  readonly #log: LogEmptying
  readonly #tallies: SnapshotTallies
  readonly #changed: (id: SnapshotId) => void
  readonly #statements: Statements

  constructor(db: DatabaseSync, transactions: Transactions, options: SnapshotTableOptions) {
    this.#statements = new Statements(db)
    this.#transactions = transactions
    this.#revisions = options.revisions
    this.#urls = new SnapshotUrlTable(db)
    this.#tallies = new SnapshotTallies(db)
    this.#events = options.events
    this.#log = options.log
    this.#changed = (id) => transactions.afterCommit(() => options.changed(id))
  }

  get(id: SnapshotId): SnapshotRecord | undefined {
    const row = this.#sql('SELECT * FROM snapshots WHERE id = ?').get(id) as SnapshotRow | undefined
    return row && snapshotOf(row)
  }

  ofStaging(stagingId: StagingId): SnapshotRecord | undefined {
    const row = this.#sql('SELECT * FROM snapshots WHERE staging_id = ?').get(stagingId)
    return row && snapshotOf(row as SnapshotRow)
  }

  /** Lists snapshots after the id `after`, in the order of ids. */
  list({ after, limit, status, vmId }: SnapshotQuery): SnapshotRecord[] {
    const rows = this.#sql(
      `SELECT * FROM snapshots WHERE id > ?1 AND (?2 IS NULL OR vm_id = ?2)
         AND (?3 IS NULL OR stage IN (SELECT value FROM json_each(?3))) ORDER BY id LIMIT ?4`,
    ).all(after ?? '', vmId ?? null, status === undefined ? null : JSON.stringify(stagesOf(status)), limit)
    return (rows as SnapshotRow[]).map(snapshotOf)
  }

  /** Returns all unfinished snapshots, the oldest first. */
  unfinished(): SnapshotRecord[] {
    const rows = this.#sql(
      `SELECT * FROM snapshots WHERE stage NOT IN ('completed', 'failed') ORDER BY created_at_ms, id`,
    ).all()
    return (rows as SnapshotRow[]).map(snapshotOf)
  }

  /**
   * Returns all snapshots that have not ended for good: the unfinished ones, and the failed ones that fresh URLs can
   * continue. Their unsent parts are needed.
   */
  open(): SnapshotRecord[] {
    const rows = this.#sql(
      `SELECT * FROM snapshots WHERE stage <> 'completed' AND (stage <> 'failed' OR resumable) ORDER BY id`,
    ).all()
    return (rows as SnapshotRow[]).map(snapshotOf)
  }

  /** Returns completed snapshots with parts in staging, the longest completed first. */
  kept(): SnapshotRecord[] {
    const rows = this.#sql(
      `SELECT * FROM snapshots WHERE staged_bytes > 0 AND stage = 'completed' ORDER BY last_activity_at_ms, id`,
    ).all()
    return (rows as SnapshotRow[]).map(snapshotOf)
  }

  /**
   * Returns snapshots with sent parts in staging: completed ones first, and within each kind the longest inactive
   * first.
   */
  sheddable(): SnapshotRecord[] {
    const rows = this.#sql(
      `SELECT * FROM snapshots WHERE staged_bytes > 0 AND sent_parts > 0 AND staged_bytes = parts_bytes
         ORDER BY stage <> 'completed', last_activity_at_ms, id`,
    ).all()
    return (rows as SnapshotRow[]).map(snapshotOf)
  }

  /** Returns the bytes in staging of a snapshot's sent parts. */
  sentBytes(id: SnapshotId): number {
    return Number(
      this.#sql(
        'SELECT sum(bytes) AS bytes FROM snapshot_parts WHERE snapshot_id = ? AND etag IS NOT NULL',
      ).get(id)?.['bytes'],
    )
  }

  /** Returns the bytes in staging of sent parts, over all snapshots. */
  sentStagedBytes(): number {
    const { bytes } = this.#sql(
      `SELECT (SELECT coalesce(sum(staged_bytes), 0) FROM snapshots)
         - (SELECT coalesce(sum(bytes), 0) FROM snapshot_parts JOIN snapshots ON snapshots.id = snapshot_id
             WHERE etag IS NULL AND staged_bytes > 0) AS bytes`,
    ).get() as { bytes: number }
    return bytes
  }

  count(): number {
    return Number(this.#sql('SELECT count(*) AS count FROM snapshots').get()?.['count'])
  }

  /** Returns the parts in the order of their numbers. */
  parts(id: SnapshotId): SnapshotPart[] {
    const rows = this.#sql('SELECT * FROM snapshot_parts WHERE snapshot_id = ? ORDER BY number').all(id)
    return (rows as PartRow[]).map(partOf)
  }

  /** Returns sums over parts and URLs; cheap, however many there are. */
  tally({ id }: SnapshotRecord): SnapshotTally {
    return this.#tallies.of(id)
  }

  /** Returns the size of the URLs of all snapshots on record. */
  urlBytes(): number {
    return this.#urls.bytes()
  }

  urlsAtHand(id: SnapshotId): UrlsAtHand {
    return this.#urls.atHand(id)
  }

  url(id: SnapshotId, purpose: UrlPurpose): SignedUrl | undefined {
    return this.#urls.get(id, purpose)
  }

  /** Returns whether a URL names another multipart upload than the one that parts were sent to. */
  isOfOtherUpload(id: SnapshotId, url: SignedUrl): boolean {
    return this.#urls.isOfOtherUpload(id, url)
  }

  insert(snapshot: NewSnapshot): SnapshotRecord {
    const { id, nowMs } = snapshot
    this.#transactions.commit(() => {
      this.#statements.insert('snapshots', {
        id,
        vm_id: snapshot.vmId,
        vm_created_at_ms: snapshot.vmCreatedAtMs,
        staging_id: snapshot.stagingId,
        operation_id: snapshot.operationId,
        stage: 'waiting',
        part_mib: snapshot.partMib,
        revision: this.#revisions.next(),
        created_at_ms: nowMs,
        updated_at_ms: nowMs,
        last_activity_at_ms: nowMs,
      })
      this.#urls.put(id, snapshot.urls)
      this.#happened(undefined, id, nowMs)
    })
    return this.#afterChange(id)
  }

  /** Stores fresh URLs. A snapshot that waited for URLs, or failed because it had none, continues: its trouble ends. */
  handOver(
    id: SnapshotId,
    urls: SnapshotUrls,
    { operationId, nowMs }: { readonly operationId: OperationId; readonly nowMs: number },
  ): SnapshotRecord {
    const before = this.#existing(id)
    assert(before.stage !== 'completed', `${id}: URLs for a snapshot that is completed`)
    assert(before.stage !== 'failed' || before.resumable, `${id}: URLs for a snapshot that failed for good`)
    this.#transactions.commit(() => {
      this.#urls.put(id, urls)
      const stage = resumedStage(before)
      this.#sql('UPDATE snapshots SET operation_id = ? WHERE id = ?').run(operationId, id)
      this.#write({ ...before, stage, resumable: false, trouble: undefined }, nowMs)
      this.#happened(before, id, nowMs)
    })
    return this.#afterChange(id)
  }

  /**
   * Drops the URL for `refused`, which the store no longer accepts, with all that came with it or before. They are
   * unusable too.
   */
  dropUrls(id: SnapshotId, nowMs: number, refused: UrlPurpose): SnapshotRecord {
    this.#transactions.commit(() => {
      this.#dropUrls(id, refused)
      this.#write(this.#existing(id), nowMs)
    })
    return this.#afterChange(id)
  }

  /** Moves a snapshot on. A snapshot that has ended for good keeps no URL. */
  advance(id: SnapshotId, { nowMs, trouble, waitingFor, ...change }: SnapshotChange): SnapshotRecord {
    const before = this.#existing(id)
    const after = { ...before, ...change }
    this.#transactions.commit(() => {
      if (isOver(after)) this.#dropUrls(id)
      if (isOver(after) && after.stage === 'failed') this.#setStaged(id, '0')
      // Trouble and waits are not activity: a snapshot that waits for an unreachable store must become stale.
      const isActivity = !isDeepStrictEqual(after, before)
      const still = {
        trouble: trouble === undefined ? before.trouble : (trouble ?? undefined),
        waitingFor: waitingFor === undefined ? before.waitingFor : (waitingFor ?? undefined),
      }
      this.#write({ ...after, ...still }, nowMs, isActivity)
      this.#happened(before, id, nowMs)
    })
    return this.#afterChange(id)
  }

  /** Records a part that is complete and on the disk, together with everything packed up to `next`. */
  addPart(id: SnapshotId, part: PackedPart, next: PackPoint, nowMs: number): SnapshotRecord {
    const before = this.#existing(id)
    assert(next.imageBytes >= before.packed.imageBytes, `${id}: packing never goes back`)
    this.#transactions.commit(() => {
      this.#sql(
        `INSERT INTO snapshot_parts (snapshot_id, number, offset_bytes, bytes, image_bytes, md5, sha256)
           VALUES (?, ?, ?, ?, ?, ?, ?)`,
      ).run(id, part.number, part.offsetBytes, part.bytes, part.imageBytes, part.md5, part.sha256)
      this.#sql(
        `UPDATE snapshots SET packed_parts = packed_parts + 1, parts_bytes = parts_bytes + ?1,
           staged_bytes = staged_bytes + ?1 WHERE id = ?2`,
      ).run(part.bytes, id)
      this.#write({ ...before, packed: next }, nowMs)
    })
    return this.#afterChange(id)
  }

  /**
   * Records that the store has the part. It is never sent again, and stays in staging unless {@link shed} was called.
   */
  setEtag(id: SnapshotId, number: number, { etag, url }: SentPart, nowMs: number): SnapshotRecord {
    this.#transactions.commit(() => {
      this.#urls.noteUpload(id, url)
      const part = this.#sql(
        'UPDATE snapshot_parts SET etag = ? WHERE snapshot_id = ? AND number = ? AND etag IS NULL RETURNING bytes, image_bytes',
      ).get(etag, id, number)
      assert(part !== undefined, `${id}: part ${number} is not on record as one that is to be sent`)
      this.#sql(
        `UPDATE snapshots SET sent_parts = sent_parts + 1, sent_image_bytes = sent_image_bytes + ?1,
           staged_bytes = iif(staged_bytes = parts_bytes, staged_bytes, max(0, staged_bytes - ?2)) WHERE id = ?3`,
      ).run(Number(part['image_bytes']), Number(part['bytes']), id)
      this.#write(this.#existing(id), nowMs)
    })
    return this.#afterChange(id)
  }

  /**
   * Gives up the staging of sent parts, now and for those sent later; a completed snapshot keeps nothing. This is not
   * activity.
   */
  shed(id: SnapshotId, nowMs: number): SnapshotRecord {
    this.#transactions.commit(() => {
      const unsent =
        'SELECT coalesce(sum(bytes), 0) FROM snapshot_parts WHERE snapshot_id = ?1 AND etag IS NULL'
      this.#setStaged(id, `(${unsent})`)
      this.#write(this.#existing(id), nowMs, false)
    })
    return this.#afterChange(id)
  }

  /** Records activity that is not finished yet. */
  touch(id: SnapshotId, nowMs: number): SnapshotRecord {
    this.#transactions.commit(() => this.#write(this.#existing(id), nowMs))
    return this.#afterChange(id)
  }

  /** Removes the snapshot with its URLs from the record; its staging then belongs to no snapshot. */
  remove(id: SnapshotId, nowMs: number): void {
    const before = this.get(id)
    this.#transactions.commit(() => {
      this.#dropUrls(id)
      this.#sql('DELETE FROM snapshots WHERE id = ?').run(id)
      this.#happened(before, id, nowMs)
    })
    this.#changed(id)
  }

  /** Drops URLs inside a transaction; after its commit they are nowhere on the disk. */
  #dropUrls(id: SnapshotId, refused?: UrlPurpose): void {
    if (this.#urls.drop(id, refused)) this.#transactions.afterCommit(() => this.#log.empty())
  }

  /** @param bytes as SQL, where `?1` is the snapshot */
  #setStaged(id: SnapshotId, bytes: string): void {
    this.#sql(`UPDATE snapshots SET staged_bytes = ${bytes} WHERE id = ?1`).run(id)
  }

  #write(record: WrittenSnapshot, nowMs: number, isActivity: boolean = true): void {
    this.#sql(
      `UPDATE snapshots SET stage = ?, capture = ?, packed_image_bytes = ?, packed_stored_bytes = ?, sha256 = ?,
         completion_sent = ?, trouble = ?, waiting_for = ?, resumable = ?, revision = ?, updated_at_ms = ?, last_activity_at_ms = ?
         WHERE id = ?`,
    ).run(
      record.stage,
      record.capture === undefined ? null : JSON.stringify(record.capture),
      record.packed.imageBytes,
      record.packed.storedBytes,
      record.sha256 ?? null,
      record.completionSent ? 1 : 0,
      record.trouble === undefined ? null : JSON.stringify(record.trouble),
      record.waitingFor ?? null,
      record.resumable ? 1 : 0,
      this.#revisions.next(),
      nowMs,
      isActivity ? nowMs : record.lastActivityAtMs,
      record.id,
    )
  }

  /** Appends what happened to a snapshot since `before`, within the transaction of the change. */
  #happened(before: SnapshotRecord | undefined, id: SnapshotId, nowMs: number): void {
    this.#events.append(nowMs, snapshotEvents(before, this.get(id)))
  }

  #existing(id: SnapshotId): SnapshotRecord {
    const record = this.get(id)
    assert(record !== undefined, `${id}: no such snapshot`)
    return record
  }

  #afterChange(id: SnapshotId): SnapshotRecord {
    const record = this.#existing(id)
    this.#changed(id)
    return record
  }

  #sql(text: string): StatementSync {
    return this.#statements.of(text)
  }
}
