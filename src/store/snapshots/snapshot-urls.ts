import { createHash } from 'node:crypto'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { SnapshotId, SnapshotUrls, UrlPurpose, UrlsAtHand } from '../../core/snapshots/record.ts'

const NUMBERS = { complete: 0, head: -1 } as const

const numberOf = (purpose: UrlPurpose): number => (typeof purpose === 'number' ? purpose : NUMBERS[purpose])

type UrlRow = { number: number; handOver: number; url: string }
type Statements = { readonly get: StatementSync; readonly put: StatementSync }

/**
 * The signed URLs of snapshots; each is removed with what it is for. Call the methods inside of transactions.
 *
 * The URLs of each snapshot are in a table of their own, which is dropped as a whole. `secure_delete` overwrites a
 * deleted row, but not the copy that SQLite leaves behind when it moves a row to another page (balance_nonroot in its
 * btree.c). For a dropped table, it overwrites every page. One common table holds which URLs exist, without the URLs.
 */
export class SnapshotUrlTable {
  readonly #db: DatabaseSync
  readonly #note: StatementSync
  readonly #forget: StatementSync
  readonly #row: StatementSync
  readonly #numbers: StatementSync
  readonly #newest: StatementSync
  readonly #bytes: StatementSync
  readonly #isSent: StatementSync
  readonly #noteUpload: StatementSync
  readonly #upload: StatementSync
  /** SQLite prepares a statement again by itself if its table was dropped and created again. */
  readonly #statements = new Map<SnapshotId, Statements>()

  constructor(db: DatabaseSync) {
    this.#db = db
    this.#note = db.prepare(
      `INSERT INTO snapshot_urls (snapshot_id, number, hand_over, bytes) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET hand_over = ?3, bytes = ?4`,
    )
    this.#forget = db.prepare('DELETE FROM snapshot_urls WHERE snapshot_id = ? AND hand_over <= ?')
    this.#row = db.prepare(
      'SELECT hand_over AS handOver FROM snapshot_urls WHERE snapshot_id = ? AND number = ?',
    )
    this.#numbers = db.prepare('SELECT number FROM snapshot_urls WHERE snapshot_id = ? ORDER BY number')
    this.#newest = db.prepare('SELECT max(hand_over) AS newest FROM snapshot_urls WHERE snapshot_id = ?')
    this.#bytes = db.prepare('SELECT ifnull(sum(bytes), 0) AS bytes FROM snapshot_urls')
    this.#isSent = db.prepare(
      'SELECT 1 FROM snapshot_parts WHERE snapshot_id = ? AND number = ? AND etag IS NOT NULL',
    )
    this.#noteUpload = db.prepare(
      'UPDATE snapshots SET upload_digest = ifnull(upload_digest, ?2) WHERE id = ?1',
    )
    this.#upload = db.prepare('SELECT upload_digest AS upload FROM snapshots WHERE id = ?')
  }

  /** Notes the upload that a part was sent to, if the URL names it; the first one of a snapshot stays. */
  noteUpload(id: SnapshotId, { uploadId }: SignedUrl): void {
    if (uploadId !== undefined) this.#noteUpload.run(id, digestOf(uploadId))
  }

  /** Returns whether a URL names another upload than the one that parts were sent to. */
  isOfOtherUpload(id: SnapshotId, { uploadId }: SignedUrl): boolean {
    const noted = this.#upload.get(id)?.['upload'] ?? undefined
    return noted !== undefined && uploadId !== undefined && noted !== digestOf(uploadId)
  }

  /** Stores URLs. They replace existing ones; the others stay. Sent parts need no URL. */
  put(id: SnapshotId, urls: SnapshotUrls): void {
    const given: [number, SignedUrl][] = urls.parts.map((url, index) => [urls.firstPart + index, url])
    if (urls.complete !== undefined) given.push([NUMBERS.complete, urls.complete])
    if (urls.head !== undefined) given.push([NUMBERS.head, urls.head])
    const needed = given.filter(([number]) => this.#isSent.get(id, number) === undefined)
    if (needed.length === 0) return
    const newest = this.#newestOf(id)
    if (newest === undefined) this.#createTable(id)
    for (const [number, url] of needed) {
      // A URL that is handed over again is not fresher.
      if (this.#find(id, number)?.equals(url) !== true)
        this.#store(id, number, url.reveal(), (newest ?? 0) + 1)
    }
  }

  get(id: SnapshotId, purpose: UrlPurpose): SignedUrl | undefined {
    return this.#find(id, numberOf(purpose))
  }

  atHand(id: SnapshotId): UrlsAtHand {
    const numbers = this.#numbers.all(id).map((row) => Number(row['number']))
    return {
      parts: new Set(numbers.filter((number) => number > 0)),
      complete: numbers.includes(NUMBERS.complete),
      head: numbers.includes(NUMBERS.head),
    }
  }

  /** Returns the size of the URLs of all snapshots. */
  bytes(): number {
    return Number(this.#bytes.get()?.['bytes'])
  }

  /** Drops all URLs, or those that came with the one for `refused` and before it. Returns whether there were any. */
  drop(id: SnapshotId, refused?: UrlPurpose): boolean {
    const newest = this.#newestOf(id)
    if (newest === undefined) return false
    const upTo = refused === undefined ? newest : this.#handOverOf(id, numberOf(refused))
    if (upTo === undefined) return false
    const fresher = upTo === newest ? [] : this.#fresherThan(id, upTo)
    this.#db.exec(`DROP TABLE ${tableOf(id)}`)
    this.#forget.run(id, upTo)
    if (fresher.length === 0) {
      this.#statements.delete(id)
      return true
    }
    this.#createTable(id)
    for (const { number, url, handOver } of fresher) this.#store(id, number, url, handOver)
    return true
  }

  #find(id: SnapshotId, number: number): SignedUrl | undefined {
    if (this.#handOverOf(id, number) === undefined) return undefined
    const row = this.#statementsOf(id).get.get(number)
    return row === undefined ? undefined : new SignedUrl(String(row['url']))
  }

  #store(id: SnapshotId, number: number, url: string, handOver: number): void {
    this.#statementsOf(id).put.run(number, url)
    this.#note.run(id, number, handOver, Buffer.byteLength(url))
  }

  #handOverOf(id: SnapshotId, number: number): number | undefined {
    return this.#row.get(id, number)?.['handOver'] as number | undefined
  }

  /** Returns the newest hand-over; undefined if there are no URLs, and no table for them. */
  #newestOf(id: SnapshotId): number | undefined {
    return (this.#newest.get(id)?.['newest'] ?? undefined) as number | undefined
  }

  #fresherThan(id: SnapshotId, handOver: number): UrlRow[] {
    return this.#db
      .prepare(
        `SELECT number, url, hand_over AS handOver FROM ${tableOf(id)} JOIN snapshot_urls USING (number)
           WHERE snapshot_id = ? AND hand_over > ?`,
      )
      .all(id, handOver) as UrlRow[]
  }

  #createTable(id: SnapshotId): void {
    this.#db.exec(`CREATE TABLE ${tableOf(id)} (number INTEGER PRIMARY KEY, url TEXT NOT NULL) STRICT`)
  }

  #statementsOf(id: SnapshotId): Statements {
    let statements = this.#statements.get(id)
    if (statements === undefined) {
      const table = tableOf(id)
      statements = {
        get: this.#db.prepare(`SELECT url FROM ${table} WHERE number = ?`),
        put: this.#db.prepare(
          `INSERT INTO ${table} (number, url) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET url = ?2`,
        ),
      }
      this.#statements.set(id, statements)
    }
    return statements
  }
}

/** Returns what is kept of an upload's id. It outlives the URLs, and nothing of a URL may. */
const digestOf = (uploadId: string): string => createHash('sha256').update(uploadId).digest('hex')

/**
 * Returns the quoted table name for SQL. Ids are lower-case letters, digits and hyphens; any other text could still not
 * leave the quotes.
 */
const tableOf = (id: SnapshotId): string => `"snapshot_urls of ${id.replaceAll('"', '""')}"`
