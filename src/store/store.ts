import { randomUUID } from 'node:crypto'
import { chmodSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { VmTable } from './vm-table.ts'
import { lockStateDirectory } from './lock.ts'
import { migrate } from './migrations.ts'
import type { VmId } from '../core/vm/ids.ts'

export type VmListener = (id: VmId) => void

/** The numeric users that VMs may be given. */
export type UserIdRange = { readonly first: number; readonly count: number }

/**
 * Durable state: one SQLite file, owned by this process alone. What a caller was promised is on the disk when the call
 * returns (WAL with synchronous=FULL); progress of reconciliation is not, for it is found again by looking.
 */
export class Store {
  readonly vms: VmTable
  /** Names this store; host objects carry it, so that no sweep takes what belongs to another. */
  readonly storeId: string
  readonly #db: DatabaseSync
  readonly #lock: { release(): void }
  readonly #listeners = new Set<VmListener>()

  /** Opens or creates `<directory>/vmhostd.db`. Throws StateDirectoryInUse where another process has it. */
  constructor(directory: string, userIds: UserIdRange) {
    this.#lock = lockStateDirectory(directory)
    try {
      this.#db = openDatabase(`${directory}/vmhostd.db`)
    } catch (error) {
      this.#lock.release()
      throw error
    }
    this.storeId = this.#ensureStoreId()
    this.vms = new VmTable(this.#db, userIds, (id) => this.#changed(id))
  }

  /** Calls `listener` after each committed change that a reader can see; returns the way to stop that. */
  onVmChange(listener: VmListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** The pool this store's disks are in; undefined until {@link rememberPool}. */
  get poolId(): string | undefined {
    return this.#meta('pool_id')
  }

  /** From now on no other pool will do: a disk that is not there must never count as one that was not made yet. */
  rememberPool(poolId: string): void {
    this.#db.prepare(`INSERT INTO meta (key, value) VALUES ('pool_id', ?)`).run(poolId)
  }

  close(): void {
    this.#db.close()
    this.#lock.release()
  }

  #changed(id: VmId): void {
    for (const listener of this.#listeners) listener(id)
  }

  #meta(key: string): string | undefined {
    const row = this.#db.prepare('SELECT value FROM meta WHERE key = ?').get(key)
    return row === undefined ? undefined : String(row['value'])
  }

  #ensureStoreId(): string {
    this.#db
      .prepare(`INSERT INTO meta (key, value) VALUES ('store_id', ?) ON CONFLICT DO NOTHING`)
      .run(randomUUID().slice(0, 8))
    return String(this.#meta('store_id'))
  }
}

function openDatabase(path: string): DatabaseSync {
  const db = new DatabaseSync(path)
  try {
    // Signed URLs and user data are at rest in here; the write-ahead log takes its mode from this file.
    chmodSync(path, 0o600)
    db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON')
    migrate(db)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}
