import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { VmId } from '../../core/ids.ts'
import type { Transactions } from '../database/transactions.ts'

/** Fingerprints of the SSH host keys that guests first showed; removed with their VM. */
export class SshHostKeys {
  readonly #transactions: Transactions
  readonly #get: StatementSync
  readonly #set: StatementSync

  constructor(db: DatabaseSync, transactions: Transactions) {
    this.#transactions = transactions
    this.#get = db.prepare('SELECT fingerprint FROM ssh_host_keys WHERE vm_id = ?')
    this.#set = db.prepare(
      `INSERT INTO ssh_host_keys (vm_id, fingerprint, pinned_at_ms) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET fingerprint = ?2, pinned_at_ms = ?3`,
    )
  }

  /** Returns the fingerprint as OpenSSH prints it, `SHA256:…`; undefined if none is pinned. */
  get(id: VmId): string | undefined {
    const row = this.#get.get(id)
    return row === undefined ? undefined : String(row['fingerprint'])
  }

  /** Pins this fingerprint for the VM, which must be on record. */
  pin(id: VmId, fingerprint: string, nowMs: number): void {
    this.#transactions.commit(() => {
      this.#set.run(id, fingerprint, nowMs)
    })
  }
}

/**
 * Guests whose file systems this host may have frozen and not thawed since. A frozen guest would stay frozen forever,
 * whatever happened to its snapshot. A note is removed with its VM.
 */
export class FrozenGuests {
  readonly #transactions: Transactions
  readonly #all: StatementSync
  readonly #get: StatementSync
  readonly #note: StatementSync
  readonly #forget: StatementSync

  constructor(db: DatabaseSync, transactions: Transactions) {
    this.#transactions = transactions
    this.#all = db.prepare('SELECT vm_id FROM frozen_guests ORDER BY vm_id')
    this.#get = db.prepare('SELECT vm_id FROM frozen_guests WHERE vm_id = ?')
    this.#note = db.prepare('INSERT INTO frozen_guests (vm_id) VALUES (?) ON CONFLICT DO NOTHING')
    this.#forget = db.prepare('DELETE FROM frozen_guests WHERE vm_id = ?')
  }

  all(): VmId[] {
    return this.#all.all().map((row) => String(row['vm_id']) as VmId)
  }

  has(id: VmId): boolean {
    return this.#get.get(id) !== undefined
  }

  /** Notes that a guest is about to be frozen. The VM must be on record. */
  note(id: VmId): void {
    this.#transactions.commit(() => {
      this.#note.run(id)
    })
  }

  /** Removes the note after a thaw. */
  forget(id: VmId): void {
    this.#transactions.commit(() => {
      this.#forget.run(id)
    })
  }
}
