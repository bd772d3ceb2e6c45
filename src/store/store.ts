import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { HeldDatabase } from './database/held-database.ts'
import { SshHostKeys, FrozenGuests } from './vm/guest-notes.ts'
import { GiveBackTable } from './migration/give-backs.ts'
import { Arrivals, Departures } from './migration/move-columns.ts'
import { StateUnwritable, Transactions, displacedFault } from './database/transactions.ts'
import { keepOpenRecords } from './database/schema-copies.ts'
import { UnwrittenProgress } from './vm/vm-row.ts'
import { ImageTable } from './images/image-table.ts'
import { SnapshotTable } from './snapshots/snapshot-table.ts'
import { CertificateRow } from './certificates/certificate-row.ts'
import { EventTable } from './events/event-table.ts'
import { MaintenanceRow } from './maintenance/maintenance-row.ts'
import { GuestAddresses } from './vm/guest-addresses.ts'
import { MemoryLoans } from './vm/memory-loans.ts'
import { VmTable } from './vm/vm-table.ts'
import { Listeners } from '../lib/listeners.ts'
import { damagedOr, isDamage } from './database/open-database.ts'
import { assert } from '../lib/assert.ts'
import type { HoldOptions } from './database/held-database.ts'
import { reserveUserIds, reservedUserIds } from './vm/user-ids.ts'
import type { UserIdRange } from './vm/user-ids.ts'
import type { UserId, VmId } from '../core/ids.ts'
import type { SnapshotId } from '../core/snapshots/record.ts'

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
  readonly giveBacks: GiveBackTable
  readonly events: EventTable
  readonly maintenance: MaintenanceRow
  readonly certificates: CertificateRow
  readonly snapshots: SnapshotTable
  readonly sshHostKeys: SshHostKeys
  readonly frozenGuests: FrozenGuests
  readonly images: ImageTable
  #storeId: string
  readonly #held: HeldDatabase
  readonly #transactions: Transactions
  readonly #unwritten: UnwrittenProgress
  readonly #vmChanges = new Listeners<[VmId]>()
  readonly #snapshotChanges = new Listeners<[SnapshotId]>()

  /** Opens or creates `<directory>/vmhostd.db`. Throws StateDirectoryInUse if another process has it. */
  constructor(directory: string, userIds: UserIdRange, options: HoldOptions = {}) {
    this.directory = directory
    this.#held = new HeldDatabase(directory, options)
    const { db, flush, log, revisions } = this.#held
    // Damage may show only in the first read of a table, so all of them are within the try.
    try {
      this.#unwritten = new UnwrittenProgress(db, {
        append: ({ atMs, bodies }) => this.events.append(atMs, bodies),
        noteGap: () => this.events.noteGap(),
      })
      this.#transactions = new Transactions(db, {
        prepare: () => {
          revisions.prepare()
          this.#unwritten.write()
        },
        onCommit: () => {
          flush.noteCommit()
          log.emptyWhereDue()
        },
      })
      this.events = new EventTable(db, this.#transactions, {
        revisions,
        noteWrite: () => flush.noteWrite(),
      })
      this.maintenance = new MaintenanceRow(db, this.#transactions, { events: this.events, revisions })
      this.certificates = new CertificateRow(db, this.#transactions, this.events)
      this.#storeId = this.#ensureStoreId()
      this.sshHostKeys = new SshHostKeys(db, this.#transactions)
      this.frozenGuests = new FrozenGuests(db, this.#transactions)
      this.images = new ImageTable(db, this.#transactions)
      this.vms = new VmTable(db, this.#transactions, {
        userIds,
        revisions,
        unwritten: this.#unwritten,
        events: this.events,
        changed: (id) => this.#vmChanges.notify(id),
      })
      this.addresses = new GuestAddresses(db)
      this.memoryLoans = new MemoryLoans(db, this.#transactions, this.#unwritten)
      const ofRecords = {
        db,
        transactions: this.#transactions,
        revisions,
        events: this.events,
        vms: this.vms,
        changed: (id: VmId) => this.#vmChanges.notify(id),
      }
      this.arrivals = new Arrivals(ofRecords)
      this.departures = new Departures(ofRecords)
      this.giveBacks = new GiveBackTable(db, this.#transactions)
      this.snapshots = new SnapshotTable(db, this.#transactions, {
        revisions,
        events: this.events,
        log,
        changed: (id) => this.#snapshotChanges.notify(id),
      })
      log.emptyWhereDue()
    } catch (error) {
      this.#held.close()
      throw damagedOr(this.#held.path, error)
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
    return this.#held.flush.flushed()
  }

  /** Does the same as {@link flushed}, and waits for events of passes too. */
  flushedAll(): Promise<void> {
    return this.#held.flush.flushedAll()
  }

  /**
   * Looks whether the files of the records are still those that this process has open. While they are not, each write
   * is refused, because it would be lost with the process. Returns the fault then.
   */
  lookAtFiles(): StateUnwritable | undefined {
    const displaced = this.#held.displaced()
    const fault = displaced === undefined ? undefined : displacedFault(displaced)
    this.#transactions.refuse(fault)
    return fault
  }

  /** Copies the records that this process has open into a file of the state directory. Returns its path. */
  keepOpenRecords(nowMs: number): string {
    return keepOpenRecords(this.#held.db, this.directory, nowMs)
  }

  /** Removes a copy of {@link keepOpenRecords}. */
  removeOpenRecords(path: string): void {
    rmSync(path, { force: true })
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
    return this.#held.meta.get('pool_id')
  }

  /** Accepts only this pool from now on. A missing disk must never count as a disk that was not made yet. */
  rememberPool(poolId: string): void {
    this.#setMeta('pool_id', poolId)
  }

  /** Gives the user ids of VMs on the host that have no record to no other VM, until {@link releaseUserIds}. */
  reserveUserIds(userIds: Iterable<UserId>): void {
    const known = reservedUserIds(this.#held.db)
    const all = [...new Set([...known, ...userIds])]
    if (all.length === known.length) return
    this.#transactions.commit(() => reserveUserIds(this.#held.db, all))
  }

  /** Ends all reservations of user ids. Call it when each VM on the host has a record. */
  releaseUserIds(): void {
    if (reservedUserIds(this.#held.db).length === 0) return
    this.#transactions.commit(() => reserveUserIds(this.#held.db, []))
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
    const row = this.#held.db
      .prepare('SELECT EXISTS (SELECT 1 FROM vms) OR EXISTS (SELECT 1 FROM snapshots) AS any')
      .get()
    return row?.['any'] === 0
  }

  close(): void {
    this.#noteEnd()
    this.#held.close()
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
    this.#transactions.commit(() => this.#held.meta.set(key, value))
  }

  #ensureStoreId(): string {
    const known = this.#held.meta.get('store_id')
    if (known !== undefined) return known
    const made = randomUUID().slice(0, 8)
    this.#transactions.commit(() => {
      this.#held.meta.set('store_id', made)
      this.events.begin()
    })
    return made
  }
}
