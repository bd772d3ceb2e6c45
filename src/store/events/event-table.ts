import { limits } from '../../config/limits.ts'
import { vmOfEvent } from '../../core/events/event.ts'
import { Listeners } from '../../lib/listeners.ts'
import { Meta } from '../database/meta.ts'
import { Statements } from '../database/transactions.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { EventBody, StoredEvent } from '../../core/events/event.ts'
import type { ChangeHistory } from '../../core/events/history.ts'
import type { VmId } from '../../core/ids.ts'
import type { Revisions } from '../database/revisions.ts'
import type { Transactions } from '../database/transactions.ts'

export type EventQuery = {
  /** Selects events with higher numbers. */
  readonly after: number
  readonly limit: number
  readonly vmId?: VmId
  readonly kind?: EventBody['kind']
  /** Selects events of this time or later. Milliseconds since the epoch. */
  readonly sinceMs?: number
}

export type EventTableOptions = {
  readonly revisions: Revisions
  /** Notes a write that {@link Store.flushedAll} waits for. */
  readonly noteWrite: () => void
}

/** The events that are kept, in the order of their numbers. */
export class EventTable implements ChangeHistory {
  readonly atOpening: ChangeHistory['atOpening']
  readonly #transactions: Transactions
  readonly #options: EventTableOptions
  readonly #statements: Statements
  readonly #meta: Meta
  readonly #listeners = new Listeners()
  /** Events since old ones were last removed. The first event of a daemon removes some. */
  #sincePruned: number = limits.eventsPruneEvery

  constructor(db: DatabaseSync, transactions: Transactions, options: EventTableOptions) {
    this.#statements = new Statements(db)
    this.#meta = new Meta(db)
    this.#transactions = transactions
    this.#options = options
    const written = this.#statements.of(NEWEST_WRITTEN).get()?.['written']
    this.atOpening = {
      written: Math.max(Number(written), this.#number(WRITTEN_AT_END)),
      reserved: options.revisions.last,
    }
  }

  /** Appends events of one moment in a transaction of its own, or as a part of the one that runs. */
  add(atMs: number, ...bodies: readonly EventBody[]): void {
    if (bodies.length > 0) this.#transactions.writeTogether(() => this.append(atMs, bodies))
  }

  /** Appends events. Call it where a rollback undoes it together with the change that the events are about. */
  append(atMs: number, bodies: readonly EventBody[]): void {
    if (bodies.length === 0) return
    for (const body of bodies) {
      this.#statements
        .of('INSERT INTO events (sequence, at_ms, vm_id, body) VALUES (?, ?, ?, ?)')
        .run(this.#options.revisions.next(), Math.round(atMs), vmOfEvent(body) ?? null, JSON.stringify(body))
    }
    this.#sincePruned += bodies.length
    if (this.#sincePruned >= limits.eventsPruneEvery) this.#prune(atMs)
    this.#options.noteWrite()
    this.#transactions.afterCommit(() => this.#listeners.notify())
  }

  /** Lists events, the oldest first. */
  list(query: EventQuery): readonly StoredEvent[] {
    const { kind: _kind, ...values } = query
    return this.#statements
      .of(selectEvents(query))
      .all({ ...values })
      .map((row) => ({
        sequence: Number(row['sequence']),
        atMs: Number(row['at_ms']),
        body: JSON.parse(String(row['body'])) as EventBody,
      }))
  }

  get newest(): number {
    return this.#options.revisions.last
  }

  get keptAfter(): number {
    return this.#number(KEPT_AFTER)
  }

  get beganAfter(): number {
    return this.#number(BEGAN_AFTER)
  }

  /**
   * Notes that events are lost which no reader has seen. Call it within the transaction that writes those that follow.
   */
  noteGap(): void {
    // A number of its own, because readers know the newest one.
    this.#setNumber(KEPT_AFTER, this.#options.revisions.next())
  }

  /**
   * Notes that all numbers so far are of other stores. Call it within the transaction that makes this store one of its
   * own.
   */
  begin(): void {
    this.#setNumber(BEGAN_AFTER, this.newest)
  }

  /**
   * Notes at the end of the process that nothing which has a number is missing on record. Otherwise readers that know
   * the number of a dry run, or of a write that was rolled back, would seem to lack something. A process that gave out
   * no number does not know what an earlier one lost.
   */
  noteEnd(): void {
    if (this.newest > this.atOpening.reserved)
      this.#transactions.writeAlone(() => this.#setNumber(WRITTEN_AT_END, this.newest))
  }

  /** Calls `listener` after each transaction with events; returns the function that ends this. */
  onAppend(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  /**
   * Removes events beyond the bounds. An event that is too old stays while an older one is not, as after the clock was
   * set. Ages count from the time of the newest events, of which one with a wrong time proves nothing.
   */
  #prune(nowMs: number): void {
    this.#sincePruned = 0
    const beyond = this.#statements
      .of('SELECT sequence AS upTo FROM events ORDER BY sequence DESC LIMIT 1 OFFSET ?')
      .get(limits.eventsMax)
    const settled = this.#statements
      .of('SELECT at_ms AS atMs FROM events ORDER BY sequence DESC LIMIT 1 OFFSET ?')
      .get(limits.eventsKeptMin - 1)
    const young = this.#statements
      .of('SELECT min(sequence) - 1 AS upTo FROM events WHERE at_ms >= ?')
      .get(Math.min(Math.round(nowMs), Number(settled?.['atMs'] ?? 0)) - limits.eventsAgeMsMax)
    const upTo = Math.max(Number(beyond?.['upTo'] ?? 0), Number(young?.['upTo'] ?? 0))
    const last = this.#statements
      .of('SELECT max(sequence) AS last FROM events WHERE sequence <= ?')
      .get(upTo)?.['last']
    if (last === null || last === undefined) return
    this.#statements.of('DELETE FROM events WHERE sequence <= ?').run(last)
    // Events from before a restore are older than what readers know of.
    this.#setNumber(KEPT_AFTER, Math.max(Number(last), this.keptAfter))
  }

  #number(key: string): number {
    return Number(this.#meta.get(key) ?? 0)
  }

  #setNumber(key: string, value: number): void {
    this.#meta.set(key, String(value))
  }
}

/**
 * Returns the SQL that selects events. Each filter has a statement of its own, and the kind is a literal in it: SQLite
 * uses no index otherwise (sqlite.org/partialindex).
 */
export function selectEvents({ vmId, kind, sinceMs }: EventQuery): string {
  const terms = [
    'sequence > :after',
    ...(vmId === undefined ? [] : ['vm_id = :vmId']),
    ...(sinceMs === undefined ? [] : ['at_ms >= :sinceMs']),
    ...(kind === undefined ? [] : [`body ->> '$.kind' = '${kind}'`]),
  ]
  return `SELECT sequence, at_ms, body FROM events WHERE ${terms.join(' AND ')} ORDER BY sequence LIMIT :limit`
}

/** The row of `meta` with the number after which all events are kept. */
export const KEPT_AFTER = 'events_kept_after'
const BEGAN_AFTER = 'events_began_after'
const WRITTEN_AT_END = 'written_at_end'

/**
 * SQL of the newest number on record. The write of anything writes the progress before it too,
 * so none below is missing.
 */
const NEWEST_WRITTEN = `SELECT max(
    ifnull((SELECT max(revision) FROM vms), 0),
    ifnull((SELECT max(revision) FROM snapshots), 0),
    ifnull((SELECT max(sequence) FROM events), 0)
  ) AS written`
