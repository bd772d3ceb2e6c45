import { isDeepStrictEqual } from 'node:util'
import { mayLend } from '../../core/capacity/ledger.ts'
import { vmEvents } from '../../core/events/vm-events.ts'
import { assert } from '../../lib/assert.ts'
import { noteDeparted } from '../migration/departed.ts'
import { endGiveBack, noteGiveBack } from '../migration/give-backs.ts'
import { noteImageUse } from '../images/image-table.ts'
import { desiredColumns, powerAfter } from './desired-change.ts'
import { changeInputs, insertVm, readInputs } from './new-vm.ts'
import { changeBy, progressColumns } from './progress-change.ts'
import { readChanged, selectedRows } from './read-rows.ts'
import { readRecorded } from './recorded-sums.ts'
import { readRevision, readRevisions, readStates, readSummaries, readWanted } from './summaries.ts'
import { nextUserId } from './user-ids.ts'
import { StateUnwritable, Statements } from '../database/transactions.ts'
import { SET_KEEP_AWAKE, SET_PROGRESS, jsonOf, progressed, recordOf } from './vm-row.ts'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Recorded } from '../../core/capacity/ledger.ts'
import type { GuestSeen } from '../../core/guest/guest-seen.ts'
import type { DeviceName, UserId, VmId } from '../../core/ids.ts'
import type { VmInputs } from '../../core/vm/create.ts'
import type {
  Metadata,
  ObservedState,
  Progress,
  VmRecord,
  VmSummary,
  PendingWake,
  Wanted,
} from '../../core/vm/record.ts'
import type { EventTable } from '../events/event-table.ts'
import type { Revisions } from '../database/revisions.ts'
import type { DesiredChange } from './desired-change.ts'
import type { NewVm } from './new-vm.ts'
import type { RevisionOf } from './summaries.ts'
import type { UserIdRange } from './user-ids.ts'
import type { Transactions } from '../database/transactions.ts'
import type { ProgressChange } from './progress-change.ts'
import type { ChangedVm } from './read-rows.ts'
import type { VmQuery } from './vm-query.ts'
import type { UnwrittenProgress, VmRow } from './vm-row.ts'

type Operation = Pick<DesiredChange, 'operationId' | 'nowMs'>

/** The table of VMs. Only here does a generation rise, and only together with the change that it counts. */
export class VmTable {
  readonly #db: DatabaseSync
  readonly #transactions: Transactions
  readonly #userIds: UserIdRange
  readonly #revisions: Revisions
  readonly #unwritten: UnwrittenProgress
  readonly #events: EventTable
  readonly #changed: (id: VmId) => void
  readonly #statements: Statements
  #lastUserId: UserId | undefined

  constructor(
    db: DatabaseSync,
    transactions: Transactions,
    options: {
      readonly userIds: UserIdRange
      readonly revisions: Revisions
      readonly unwritten: UnwrittenProgress
      readonly events: EventTable
      readonly changed: (id: VmId) => void
    },
  ) {
    this.#db = db
    this.#statements = new Statements(db)
    this.#transactions = transactions
    this.#userIds = options.userIds
    this.#revisions = options.revisions
    this.#unwritten = options.unwritten
    this.#events = options.events
    this.#changed = (id) => transactions.afterCommit(() => options.changed(id))
  }

  get(id: VmId): VmRecord | undefined {
    const row = this.#sql('SELECT * FROM vms WHERE id = ?').get(id) as VmRow | undefined
    return row && recordOf(this.#unwritten.on(row))
  }

  /** Reads a record among many: undefined also if it cannot be read, which the pass of the VM reports. */
  readable(id: VmId): VmRecord | undefined {
    try {
      return this.get(id)
    } catch {
      return undefined
    }
  }

  /** Returns what a request may change while a pass acts, and reads nothing else; undefined if the VM is gone. */
  wantedOf(id: VmId): Wanted | undefined {
    return readWanted(this.#statements, this.#unwritten, id)
  }

  /** Lists VMs in the order of ids. */
  list(query: VmQuery): VmRecord[] {
    return selectedRows(this.#statements, this.#unwritten, query).map(recordOf)
  }

  /** Lists summaries in the order of ids. */
  summaries(query: VmQuery): readonly VmSummary[] {
    return readSummaries(this.#statements, this.#unwritten, query)
  }

  /** Lists VMs and their revisions in the order of ids, and reads nothing else of a record. */
  revisions(query: VmQuery): readonly RevisionOf[] {
    return readRevisions(this.#statements, this.#unwritten, query)
  }

  /** Returns the revision of a VM, and reads nothing else of its record; undefined if there is none with that id. */
  revisionOf(id: VmId): RevisionOf | undefined {
    return readRevision(this.#statements, this.#unwritten, id)
  }

  /** Returns whether the VM is on record, but its record cannot be read. That does not mean that the VM is gone. */
  isUnreadable(id: VmId): boolean {
    return this.readable(id) === undefined && this.revisionOf(id) !== undefined
  }

  /** Lists VMs with a later revision, in the order of revisions. */
  changedAfter(revision: number, limit: number): readonly ChangedVm[] {
    return readChanged(this.#statements, this.#unwritten, { revision, limit })
  }

  ids(): VmId[] {
    return this.#sql('SELECT id FROM vms ORDER BY id')
      .all()
      .map((row) => row['id'] as VmId)
  }

  /** Returns the observed state of each VM in the order of ids, and reads nothing else of a record. */
  states(): ReadonlyMap<VmId, ObservedState> {
    return readStates(this.#statements, this.#unwritten)
  }

  /** Returns the sums for the capacity ledger over every VM on record, including those under deletion. */
  recorded(): Recorded {
    return readRecorded(this.#statements, this.#unwritten, 'all')
  }

  /** Returns the same sums over the VMs under deletion. */
  recordedUnderDeletion(): Recorded {
    return readRecorded(this.#statements, this.#unwritten, 'under deletion')
  }

  withUserId(userId: UserId): VmId | undefined {
    return this.#sql('SELECT id FROM vms WHERE user_id = ?').get(userId)?.['id'] as VmId | undefined
  }

  withDevice(device: DeviceName): VmId | undefined {
    return this.#sql('SELECT id FROM vms WHERE device = ?').get(device)?.['id'] as VmId | undefined
  }

  /** Returns a user id that no VM has, the longest unused first; undefined if all ids are in use. */
  freeUserId(): UserId | undefined {
    return nextUserId(this.#statements, this.#userIds, this.#lastUserId)
  }

  inputs(id: VmId): VmInputs {
    return readInputs(this.#statements, id)
  }

  insert(vm: NewVm): VmRecord {
    return this.#transactions.commit(() => {
      insertVm(this.#statements, vm, this.#revisions.next())
      if (vm.move !== undefined) endGiveBack(this.#db, vm.move.arrival.migrationId)
      noteImageUse(this.#statements, vm.id, vm.nowMs)
      this.#transactions.afterCommit(() => {
        this.#lastUserId = vm.userId
      })
      const record = this.#afterChange(vm.id)
      this.#events.append(vm.nowMs, vmEvents(undefined, record))
      return record
    })
  }

  /** Stores other URLs of the VM's images. They are not part of desired state, so no generation rises. */
  addSources(id: VmId, sources: VmInputs['sources']): void {
    this.#transactions.commit(() => changeInputs(this.#statements, id, { sources }))
  }

  /** Stores a real change of desired state and raises its generation, in one transaction. */
  changeDesired(id: VmId, change: DesiredChange): VmRecord {
    const before = this.get(id)
    assert(before !== undefined, `${id}: no such VM`)
    const desired = change.desired ?? before.desired
    const deleting = before.deleting || change.deleting === true
    const generation = before.generations.desired + 1
    const power = powerAfter(before, { ...change, desired }, generation)
    assert(
      power.isSet || deleting !== before.deleting || !isDeepStrictEqual(desired, before.desired),
      `${id}: a generation may not rise without a change`,
    )
    return this.#transactions.commit(() => {
      if (change.departure !== undefined && change.departure.id !== before.departure?.id)
        noteDeparted(this.#db, before.departure)
      if (deleting && !before.deleting) noteGiveBack(this.#db, before, change.nowMs)
      const changesImages = !isDeepStrictEqual(desired.image, before.desired.image)
      // The images that the VM has until now; those that it gets are noted below.
      if (changesImages) noteImageUse(this.#statements, id, change.nowMs)
      // Another instance makes other host keys.
      if (desired.instance !== before.desired.instance)
        this.#sql('DELETE FROM ssh_host_keys WHERE vm_id = ?').run(id)
      this.#statements.update('vms', id, {
        ...desiredColumns(desired),
        deleting: deleting ? 1 : 0,
        operation_id: change.operationId,
        desired_generation: generation,
        power_generation: power.generation,
        stop_accepted: power.stopAccepted,
        stop_grace: jsonOf(power.grace),
        memory_lent: before.memoryLent === true && mayLend(desired) ? 1 : 0,
        departure: jsonOf(change.departure ?? before.departure),
        revision: this.#revisions.next(),
        updated_at_ms: change.nowMs,
      })
      if (changesImages) noteImageUse(this.#statements, id, change.nowMs)
      if (change.inputs !== undefined) changeInputs(this.#statements, id, change.inputs)
      const after = this.#afterChange(id)
      this.#events.append(change.nowMs, vmEvents(before, after))
      return after
    })
  }

  /** Changes labels and protection. The change is visible, but not part of desired state, so no generation rises. */
  changeMetadata(id: VmId, { labels, protected: guarded }: Metadata, nowMs: number): VmRecord {
    this.#transactions.commit(() => {
      this.#sql('UPDATE vms SET labels = ?, protected = ?, revision = ?, updated_at_ms = ? WHERE id = ?').run(
        JSON.stringify(labels),
        guarded ? 1 : 0,
        this.#revisions.next(),
        nowMs,
        id,
      )
    })
    return this.#afterChange(id)
  }

  /**
   * Sets until when the guest stays awake, or ends that. It is not desired state, so no generation rises. What follows
   * from it has its operation, unless a change that is not reached follows from another.
   */
  keepAwake(id: VmId, untilMs: number | undefined, { operationId, nowMs }: Operation): VmRecord {
    this.#transactions.commit(() => {
      this.#sql(SET_KEEP_AWAKE).run(untilMs ?? null, operationId, this.#revisions.next(), nowMs, id)
    })
    return this.#afterChange(id)
  }

  /** Writes the findings of looks into the guest. They are not flushed, because another look finds them again. */
  setGuestSeen(id: VmId, seen: GuestSeen, nowMs: number): void {
    const json = Object.keys(seen).length === 0 ? null : JSON.stringify(seen)
    this.#transactions.writeAlone(() =>
      this.#sql('UPDATE vms SET guest = ?, revision = ?, updated_at_ms = ? WHERE id = ?').run(
        json,
        this.#revisions.next(),
        nowMs,
        id,
      ),
    )
    this.#changed(id)
  }

  /**
   * Requests the guest of a sleeping VM. Desired state stays, so no generation rises, and no reader sees the request.
   * Of several requests, the first one stands until a pass has seen the guest.
   */
  requestWake(id: VmId, asked: Pick<PendingWake, 'reason' | 'atMs' | 'restores'>): void {
    this.#transactions.commit(() => {
      this.#sql('UPDATE vms SET wake = ? WHERE id = ? AND wake IS NULL').run(JSON.stringify(asked), id)
    })
  }

  /**
   * Writes the result of a pass. It is flushed only if the observed generation rises, or a guest may be saved or ends
   * for its move from now on; another look finds the rest again. While nothing can be written, the result is kept in
   * memory, and the generation stays as it is. Throws StateUnwritable when such a save or end begins, and when a start
   * follows a stop that is carried out. Returns the record as it is now, or undefined if the VM is gone.
   */
  recordProgress(id: VmId, progress: Progress): VmRecord | undefined {
    const before = this.get(id)
    if (before === undefined) return undefined
    const change = changeBy(before, progress)
    if (!change.isNew && !this.#unwritten.has(id)) return before
    try {
      this.#writeProgress(before, progress, change)
    } catch (error) {
      const mayStayInMemory =
        error instanceof StateUnwritable && !change.mustBeWritten && !this.#transactions.isOpen
      if (!mayStayInMemory) throw error
      this.#keepUnwritten(before, progress, change)
    }
    return change.isVisible ? this.#afterChange(id) : this.get(id)
  }

  #writeProgress(before: VmRecord, { observed, nowMs }: Progress, change: ProgressChange): void {
    const { observedGeneration, wake } = change.after
    const events = vmEvents(before, progressed(before, { observed, observedGeneration, wake }))
    const write = () => {
      this.#sql(`${SET_PROGRESS}, observed_generation = :generation WHERE id = :id`).run({
        ...progressColumns(change.after, observed, this.#revised(before, nowMs, change.isVisible)),
        generation: observedGeneration,
        id: before.id,
      })
      this.#events.append(nowMs, events)
    }
    if (change.isFlushed) this.#transactions.commit(write)
    else if (events.length > 0) this.#transactions.writeTogether(write)
    else this.#transactions.writeAlone(write)
  }

  /** Keeps progress in memory. Readers see it only while there are numbers for its revision. */
  #keepUnwritten(before: VmRecord, progress: Progress, { after, isVisible }: ProgressChange): void {
    const { nowMs } = progress
    const isShown = isVisible && this.#revisions.isAvailable
    const observed = isShown ? progress.observed : before.observed
    const bodies = vmEvents(before, progressed(before, { observed, wake: after.wake }))
    const columns = progressColumns(after, observed, this.#revised(before, nowMs, isShown))
    this.#unwritten.keep(before.id, columns, { atMs: nowMs, bodies })
  }

  /** Returns the revision of a record after a change; the present one if no reader sees the change. */
  #revised({ revision, updatedAtMs }: VmRecord, nowMs: number, isVisible: boolean) {
    return isVisible ? { revision: this.#revisions.next(), updatedAtMs: nowMs } : { revision, updatedAtMs }
  }

  /** Ends the record of a deleted VM whose host objects are gone. */
  forget(id: VmId, nowMs: number): void {
    const before = this.get(id)
    assert(before?.deleting === true, `${id}: only a VM under deletion is forgotten`)
    this.#transactions.commit(() => {
      noteImageUse(this.#statements, id, nowMs)
      noteDeparted(this.#db, before.departure)
      this.#sql('DELETE FROM vms WHERE id = ?').run(id)
      this.#events.append(nowMs, vmEvents(before, undefined))
    })
    this.#changed(id)
  }

  #afterChange(id: VmId): VmRecord {
    const record = this.get(id)
    assert(record !== undefined, `${id}: gone after its own change`)
    this.#changed(id)
    return record
  }

  #sql(text: string): StatementSync {
    return this.#statements.of(text)
  }
}
