import { randomUUID } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { Meta } from './database/meta.ts'
import { LogEmptying, WalFlush } from './database/write-ahead-log.ts'
import { Revisions, firstNumber } from './database/revisions.ts'
import { SshHostKeys, FrozenGuests } from './vm/guest-notes.ts'
import { Arrivals, Departures } from './migration/move-columns.ts'
import { StateUnwritable, Transactions } from './database/transactions.ts'
import { UnwrittenProgress } from './vm/vm-row.ts'
import { ImageTable } from './images/image-table.ts'
import { SnapshotTable } from './snapshots/snapshot-table.ts'
import { CertificateRow } from './certificates/certificate-row.ts'
import { EventTable } from './events/event-table.ts'
import { MaintenanceRow } from './maintenance/maintenance-row.ts'
import { GuestAddresses } from './vm/guest-addresses.ts'
import { MemoryLoans } from './vm/memory-loans.ts'
import { VmTable } from './vm/vm-table.ts'
import { given } from '../lib/given.ts'
import { Listeners } from '../lib/listeners.ts'
import {
  damagedOr,
  databaseIn,
  isDamage,
  lockStateDirectory,
  openDatabase,
} from './database/open-database.ts'
import { removeUnfinishedCopies } from './database/schema-copies.ts'
import type { OpenOptions } from './database/open-database.ts'
import { assert } from '../lib/assert.ts'
import type { FlushOptions, LogClock } from './database/write-ahead-log.ts'
import { reserveUserIds, reservedUserIds } from './vm/user-ids.ts'
import type { UserIdRange } from './vm/user-ids.ts'
import type { UserId, VmId } from '../core/ids.ts'
import type { SnapshotId } from '../core/snapshots/record.ts'

export type StoreOptions = FlushOptions &
  OpenOptions & {
    /**
     * The time, in milliseconds since the epoch. The numbers of a new store follow from it, so that they are above
     * those of a store that was lost; without it they begin at 0.
     */
    readonly nowMs?: number
    /** Lets the log be emptied later if another process reads it; without it, only a later commit empties it. */
    readonly after?: LogClock['after']
  }

/**
 * Durable state: one SQLite file, owned by this process alone. A commit is on the disk when the promise of {@link
 * flushed} resolves. Progress of reconciliation is not flushed, because another look finds it again.
 */
export class Store {
  /** The directory of the records. */
  readonly directory: string
  readonly vms: VmTable
  readonly addresses: GuestAddresses
  readonly memoryLoans: MemoryLoans
  readonly arrivals: Arrivals
  readonly departures: Departures
  readonly events: EventTable
  readonly maintenance: MaintenanceRow
  readonly certificates: CertificateRow
  readonly snapshots: SnapshotTable
  readonly sshHostKeys: SshHostKeys
  readonly frozenGuests: FrozenGuests
  readonly images: ImageTable
  #storeId: string
  readonly #db: DatabaseSync
  readonly #meta: Meta
  readonly #lock: { release(): void }
  readonly #flush: WalFlush
  readonly #log: LogEmptying
  readonly #transactions: Transactions
  readonly #unwritten: UnwrittenProgress
  readonly #vmChanges = new Listeners<[VmId]>()
  readonly #snapshotChanges = new Listeners<[SnapshotId]>()

  /** Opens or creates `<directory>/vmhostd.db`. Throws StateDirectoryInUse if another process has it. */
  constructor(
    directory: string,
    userIds: UserIdRange,
    { nowMs = 0, onUpgrade, after, ...flushOptions }: StoreOptions = {},
  ) {
    this.directory = directory
    this.#lock = lockStateDirectory(directory)
    const path = databaseIn(directory)
    const opened: { close(): void }[] = [{ close: () => this.#lock.release() }]
    // Damage may show only in the first read of a table, so all of them are within the try.
    try {
      removeUnfinishedCopies(directory)
      this.#db = openDatabase(path, given({ onUpgrade }))
      opened.push(this.#db)
      this.#meta = new Meta(this.#db)
      this.#flush = new WalFlush(path, flushOptions)
      this.#log = new LogEmptying(this.#db, given({ after }))
      opened.push(this.#log)
      const revisions = new Revisions({
        reserved: () => Number(this.#meta.get('revisions') ?? firstNumber(nowMs)),
        reserve: (upTo) => {
          this.#meta.set('revisions', String(upTo))
          this.#flush.noteCommit()
        },
      })
      this.#unwritten = new UnwrittenProgress(this.#db, {
        append: ({ atMs, bodies }) => this.events.append(atMs, bodies),
        noteGap: () => this.events.noteGap(),
      })
      this.#transactions = new Transactions(this.#db, {
        prepare: () => {
          revisions.prepare()
          this.#unwritten.write()
        },
        onCommit: () => {
          this.#flush.noteCommit()
          this.#log.emptyWhereDue()
        },
      })
      this.events = new EventTable(this.#db, this.#transactions, {
        revisions,
        noteWrite: () => this.#flush.noteWrite(),
      })
      this.maintenance = new MaintenanceRow(this.#db, this.#transactions, { events: this.events, revisions })
      this.certificates = new CertificateRow(this.#db, this.#transactions, this.events)
      this.#storeId = this.#ensureStoreId()
      this.sshHostKeys = new SshHostKeys(this.#db, this.#transactions)
      this.frozenGuests = new FrozenGuests(this.#db, this.#transactions)
      this.images = new ImageTable(this.#db, this.#transactions)
      this.vms = new VmTable(this.#db, this.#transactions, {
        userIds,
        revisions,
        unwritten: this.#unwritten,
        events: this.events,
        changed: (id) => this.#vmChanges.notify(id),
      })
      this.addresses = new GuestAddresses(this.#db)
      this.memoryLoans = new MemoryLoans(this.#db, this.#transactions, this.#unwritten)
      const ofRecords = {
        db: this.#db,
        transactions: this.#transactions,
        revisions,
        events: this.events,
        vms: this.vms,
        changed: (id: VmId) => this.#vmChanges.notify(id),
      }
      this.arrivals = new Arrivals(ofRecords)
      this.departures = new Departures(ofRecords)
      this.snapshots = new SnapshotTable(this.#db, this.#transactions, {
        revisions,
        events: this.events,
        log: this.#log,
        changed: (id) => this.#snapshotChanges.notify(id),
      })
      this.#log.emptyWhereDue()
    } catch (error) {
      for (const one of opened.toReversed()) one.close()
      throw damagedOr(path, error)
    }
  }

  /** Calls `listener` after each committed change that a reader can see; returns the function that ends this. */
  onVmChange(listener: (id: VmId) => void): () => void {
    return this.#vmChanges.add(listener)
  }

  /** Does the same for snapshots. */
  onSnapshotChange(listener: (id: SnapshotId) => void): () => void {
    return this.#snapshotChanges.add(listener)
  }

  /** Runs `write` as one transaction: all of it is committed when this returns, or nothing happened. */
  transaction<T>(write: () => T): T {
    return this.#transactions.commit(write)
  }

  /**
   * Resolves when all earlier commits are on the disk. Nothing may be promised, acted on or shown to a reader before
   * that. Rejects if the disk failed. The content of the disk is then unknown, and the daemon should end.
   */
  flushed(): Promise<void> {
    return this.#flush.flushed()
  }

  /** Does the same as {@link flushed}, and waits for events of passes too. */
  flushedAll(): Promise<void> {
    return this.#flush.flushedAll()
  }

  /** Returns what {@link transaction} would return; nothing is stored and no listener is called. */
  rehearse<T>(write: () => T): T {
    return this.#transactions.rehearse(write)
  }

  /** Identifies this store. Host objects carry it, so that no sweep removes what belongs to another store. */
  get storeId(): string {
    return this.#storeId
  }

  /** Returns the pool of this store's disks; undefined until {@link rememberPool}. */
  get poolId(): string | undefined {
    return this.#meta.get('pool_id')
  }

  /** Accepts only this pool from now on. A missing disk must never count as a disk that was not made yet. */
  rememberPool(poolId: string): void {
    this.#setMeta('pool_id', poolId)
  }

  /** Gives the user ids of VMs on the host that have no record to no other VM, until {@link releaseUserIds}. */
  reserveUserIds(userIds: Iterable<UserId>): void {
    const known = reservedUserIds(this.#db)
    const all = [...new Set([...known, ...userIds])]
    if (all.length === known.length) return
    this.#transactions.commit(() => reserveUserIds(this.#db, all))
  }

  /** Ends all reservations of user ids. Call it when each VM on the host has a record. */
  releaseUserIds(): void {
    if (reservedUserIds(this.#db).length === 0) return
    this.#transactions.commit(() => reserveUserIds(this.#db, []))
  }

  /**
   * Takes the id of a store that is lost, so that units and disks of that store are this one's.
   * It must have no records.
   */
  adoptId(storeId: string): void {
    assert(this.isEmpty, 'only a store without records takes another id')
    this.#setMeta('store_id', storeId)
    this.#storeId = storeId
  }

  /** Returns whether there is neither a VM nor a snapshot on record. */
  get isEmpty(): boolean {
    const row = this.#db
      .prepare('SELECT EXISTS (SELECT 1 FROM vms) OR EXISTS (SELECT 1 FROM snapshots) AS any')
      .get()
    return row?.['any'] === 0
  }

  close(): void {
    this.#noteEnd()
    this.#flush.close()
    this.#log.close()
    this.#db.close()
    this.#lock.release()
  }

  /** The note only spares readers a needless look at everything, so the store also closes without it. */
  #noteEnd(): void {
    try {
      this.events.noteEnd()
    } catch (error) {
      if (!(error instanceof StateUnwritable) && !isDamage(error)) throw error
    }
  }

  #setMeta(key: string, value: string): void {
    this.#transactions.commit(() => this.#meta.set(key, value))
  }

  #ensureStoreId(): string {
    const known = this.#meta.get('store_id')
    if (known !== undefined) return known
    const made = randomUUID().slice(0, 8)
    this.#transactions.commit(() => {
      this.#meta.set('store_id', made)
      this.events.begin()
    })
    return made
  }
}
