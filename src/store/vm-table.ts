import { isDeepStrictEqual } from 'node:util'
import { deviceName } from '../core/network/device-name.ts'
import { SignedUrl } from '../core/storage/signed-url.ts'
import { assert } from '../lib/assert.ts'
import { nextUserId } from './user-ids.ts'
import { recordOf } from './vm-row.ts'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { ImageSource } from '../core/storage/image-source.ts'
import type { Desired } from '../core/vm/desired.ts'
import type { Generation, OperationId, Sha256, UserId, VmId } from '../core/vm/ids.ts'
import type { Launch, Observed, ObservedState, VmRecord } from '../core/vm/record.ts'
import type { UserIdRange } from './store.ts'
import type { VmRow } from './vm-row.ts'

/** What was given at creation and never goes back out. */
export type VmInputs = {
  /** The request in canonical form, without its URLs: a repeat is the same request if this is equal. */
  readonly request: string
  readonly sources: ReadonlyMap<Sha256, ImageSource>
  readonly userData?: string
  readonly sshAuthorizedKeys: readonly string[]
}

export type NewVm = {
  readonly id: VmId
  readonly userId: UserId
  readonly desired: Desired
  readonly inputs: VmInputs
  readonly operationId: OperationId
  readonly nowMs: number
}

export type DesiredChange = {
  readonly desired?: Desired
  readonly deleting?: true
  readonly operationId: OperationId
  readonly nowMs: number
}

/** What a pass writes back. Members that are absent stay as they are; `launch: null` takes the launch away. */
export type Progress = {
  readonly observed: Observed
  readonly observedGeneration?: Generation
  readonly launch?: Launch | null
  readonly exitStreak?: number
  readonly nowMs: number
}

export type VmQuery = { readonly after?: VmId; readonly limit: number; readonly state?: ObservedState }

/** The VMs. The only place where a generation rises, and only together with what it counts. */
export class VmTable {
  readonly #db: DatabaseSync
  readonly #userIds: UserIdRange
  readonly #changed: (id: VmId) => void
  readonly #statements = new Map<string, StatementSync>()
  #lastUserId: UserId | undefined

  constructor(db: DatabaseSync, userIds: UserIdRange, changed: (id: VmId) => void) {
    this.#db = db
    this.#userIds = userIds
    this.#changed = changed
  }

  get(id: VmId): VmRecord | undefined {
    const row = this.#sql('SELECT * FROM vms WHERE id = ?').get(id) as VmRow | undefined
    return row && recordOf(row)
  }

  /** In the order of ids, after `after`. */
  list(query: VmQuery): VmRecord[] {
    const rows = this.#sql(
      'SELECT * FROM vms WHERE id > ? AND (?2 IS NULL OR state = ?2) ORDER BY id LIMIT ?3',
    ).all(query.after ?? '', query.state ?? null, query.limit)
    return (rows as VmRow[]).map(recordOf)
  }

  ids(): VmId[] {
    return this.#sql('SELECT id FROM vms ORDER BY id')
      .all()
      .map((row) => row['id'] as VmId)
  }

  all(): VmRecord[] {
    return (this.#sql('SELECT * FROM vms ORDER BY id').all() as VmRow[]).map(recordOf)
  }

  /** The VM other than `except` that has this guest address. */
  addressHolder(address: string, except?: VmId): VmId | undefined {
    const row = this.#sql(
      'SELECT id FROM vms WHERE (ipv4_address = ?1 OR ipv6_address = ?1) AND id IS NOT ?2',
    ).get(address, except ?? null)
    return row?.['id'] as VmId | undefined
  }

  /** A user id no VM has, the longest unused first; undefined where the range is used up. */
  freeUserId(): UserId | undefined {
    const last =
      this.#lastUserId ?? this.#sql('SELECT max(user_id) AS last FROM vms').get()?.['last'] ?? undefined
    const taken = this.#sql('SELECT 1 FROM vms WHERE user_id = ?')
    const userId = nextUserId(this.#userIds, last as number | undefined, (id) => taken.get(id) !== undefined)
    this.#lastUserId = userId ?? this.#lastUserId
    return userId
  }

  inputs(id: VmId): VmInputs {
    const row = this.#sql('SELECT * FROM vm_inputs WHERE vm_id = ?').get(id)
    assert(row !== undefined, `${id}: a VM without inputs`)
    const sources = Object.entries(JSON.parse(String(row['sources'])) as Record<string, string>)
    return {
      request: String(row['request']),
      sources: new Map(sources.map(([sha256, url]) => [sha256 as Sha256, { url: new SignedUrl(url) }])),
      ...(row['user_data'] === null ? {} : { userData: String(row['user_data']) }),
      sshAuthorizedKeys: JSON.parse(String(row['ssh_authorized_keys'])) as string[],
    }
  }

  insert(vm: NewVm): VmRecord {
    this.#durably(() => {
      const { network } = vm.desired
      this.#sql(
        `INSERT INTO vms (id, user_id, device, ipv4_address, ipv6_address, desired, desired_generation,
           observed_generation, operation_id, state, observed, revision, created_at_ms, updated_at_ms)
         VALUES (?, ?, ?, ?, ?, ?, 1, 0, ?, 'pending', '{"state":"pending"}', 1, ?, ?)`,
      ).run(
        vm.id,
        vm.userId,
        deviceName(vm.userId),
        network?.ipv4Address ?? null,
        network?.ipv6Address ?? null,
        JSON.stringify(vm.desired),
        vm.operationId,
        vm.nowMs,
        vm.nowMs,
      )
      this.#sql(
        'INSERT INTO vm_inputs (vm_id, request, sources, user_data, ssh_authorized_keys) VALUES (?, ?, ?, ?, ?)',
      ).run(
        vm.id,
        vm.inputs.request,
        sourcesJson(vm.inputs.sources),
        vm.inputs.userData ?? null,
        JSON.stringify(vm.inputs.sshAuthorizedKeys),
      )
    })
    return this.#afterChange(vm.id)
  }

  /** Fresh URLs for the same images; no part of desired state, so no generation. */
  replaceSources(id: VmId, sources: VmInputs['sources']): void {
    this.#durably(() => {
      this.#sql('UPDATE vm_inputs SET sources = ? WHERE vm_id = ?').run(sourcesJson(sources), id)
    })
  }

  /** Stores a real change of desired state and raises its generation, in one transaction. */
  changeDesired(id: VmId, change: DesiredChange): VmRecord {
    const before = this.get(id)
    assert(before !== undefined, `${id}: no such VM`)
    const desired = change.desired ?? before.desired
    const deleting = before.deleting || change.deleting === true
    assert(
      deleting !== before.deleting || !isDeepStrictEqual(desired, before.desired),
      `${id}: a generation may not rise without a change`,
    )
    this.#durably(() => {
      this.#sql(
        `UPDATE vms SET desired = ?, deleting = ?, operation_id = ?, desired_generation = desired_generation + 1,
           ipv4_address = ?, ipv6_address = ?, revision = revision + 1, updated_at_ms = ? WHERE id = ?`,
      ).run(
        JSON.stringify(desired),
        deleting ? 1 : 0,
        change.operationId,
        desired.network?.ipv4Address ?? null,
        desired.network?.ipv6Address ?? null,
        change.nowMs,
        id,
      )
    })
    return this.#afterChange(id)
  }

  /**
   * Writes what a pass found. Durable only where the observed generation rises; the rest is found again by looking.
   * Returns the record as it is now, or undefined where the VM is gone.
   */
  recordProgress(id: VmId, progress: Progress): VmRecord | undefined {
    const before = this.get(id)
    if (before === undefined) return undefined
    const observedGeneration = progress.observedGeneration ?? before.generations.observed
    assert(observedGeneration >= before.generations.observed, `${id}: an observed generation never falls`)
    assert(
      observedGeneration <= before.generations.desired,
      `${id}: an observed generation never passes desired`,
    )
    const launch = progress.launch === undefined ? before.launch : (progress.launch ?? undefined)
    const exitStreak = progress.exitStreak ?? before.exitStreak
    const rises = observedGeneration > before.generations.observed
    const visible = rises || !isDeepStrictEqual(progress.observed, before.observed)
    if (!visible && exitStreak === before.exitStreak && isDeepStrictEqual(launch, before.launch))
      return before
    const write = () =>
      this.#sql(
        `UPDATE vms SET observed = ?, state = ?, observed_generation = ?, launch = ?, exit_streak = ?,
           revision = revision + ?, updated_at_ms = ? WHERE id = ?`,
      ).run(
        JSON.stringify(progress.observed),
        progress.observed.state,
        observedGeneration,
        launch === undefined ? null : JSON.stringify(launch),
        exitStreak,
        visible ? 1 : 0,
        visible ? progress.nowMs : before.updatedAtMs,
        id,
      )
    if (rises) this.#durably(write)
    else this.#lightly(write)
    return visible ? this.#afterChange(id) : this.get(id)
  }

  /** Ends the record of a deleted VM whose host objects are gone. */
  forget(id: VmId): void {
    assert(this.get(id)?.deleting === true, `${id}: only a VM under deletion is forgotten`)
    this.#durably(() => {
      this.#sql('DELETE FROM vms WHERE id = ?').run(id)
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
    let statement = this.#statements.get(text)
    if (statement === undefined) {
      statement = this.#db.prepare(text)
      this.#statements.set(text, statement)
    }
    return statement
  }

  #durably(write: () => void): void {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      write()
      this.#db.exec('COMMIT')
    } catch (error) {
      this.#db.exec('ROLLBACK')
      throw error
    }
  }

  /** A commit that survives the daemon but not the host: WAL with synchronous=NORMAL does not flush (sqlite.org/pragma). */
  #lightly(write: () => void): void {
    this.#db.exec('PRAGMA synchronous = NORMAL')
    try {
      write()
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL')
    }
  }
}

const sourcesJson = (sources: VmInputs['sources']): string =>
  JSON.stringify(Object.fromEntries([...sources].map(([sha256, source]) => [sha256, source.url.reveal()])))
