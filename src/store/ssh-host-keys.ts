import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { VmId } from '../core/vm/ids.ts'
import type { Transactions } from './transactions.ts'

/** Fingerprints of the SSH host keys that guests were first seen with; gone with their VM. */
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

  /** As OpenSSH prints it, `SHA256:…`; undefined where none is pinned. */
  get(id: VmId): string | undefined {
    const row = this.#get.get(id)
    return row === undefined ? undefined : String(row['fingerprint'])
  }

  /** From now on this one is the VM's, which must be on record. */
  pin(id: VmId, fingerprint: string, nowMs: number): void {
    this.#transactions.commit(() => {
      this.#set.run(id, fingerprint, nowMs)
    })
  }
}
