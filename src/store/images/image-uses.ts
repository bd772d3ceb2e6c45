import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { given } from '../../lib/given.ts'
import type { OperationId, Sha256, VmId } from '../../core/ids.ts'
import type { Statements, Transactions } from '../database/transactions.ts'

/** How many VMs on record use an image, and when it was last used. */
export type ImageUse = { readonly count: number; readonly lastUsedAtMs?: number }

const DIGESTS = ['rootfs', 'kernel', 'initrd'].map((role) => `$.image.${role}Sha256`)

/**
 * Notes that a VM uses its images, or used them until now; they must then not be removed. Call it in the transaction
 * that stores the VM, in the one that forgets it, and before and after a change of its images.
 */
export function noteImageUse(statements: Statements, vmId: string, nowMs: number): void {
  const note = statements.of(
    `INSERT INTO image_uses (sha256, last_used_at_ms)
       SELECT desired ->> ?1, ?2 FROM vms WHERE id = ?3 AND desired ->> ?1 IS NOT NULL
       ON CONFLICT DO UPDATE SET last_used_at_ms = ?2`,
  )
  const withdraw = statements.of(
    'DELETE FROM image_removals WHERE sha256 = (SELECT desired ->> ?1 FROM vms WHERE id = ?2)',
  )
  for (const path of DIGESTS) {
    note.run(path, nowMs, vmId)
    withdraw.run(path, vmId)
  }
}

/** Returns every image that a VM uses or used. */
export function readImageUses(db: DatabaseSync): ReadonlyMap<Sha256, ImageUse> {
  const uses = new Map<Sha256, ImageUse>()
  for (const row of db.prepare('SELECT sha256, last_used_at_ms AS lastUsedAtMs FROM image_uses').all()) {
    const { sha256, lastUsedAtMs } = row as { sha256: Sha256; lastUsedAtMs: number }
    uses.set(sha256, { count: 0, lastUsedAtMs })
  }
  // Grouped, because thousands of VMs have a few images between them.
  for (const { vms, ...digests } of db.prepare(USES).all()) {
    // A VM that has an image in two roles uses it once.
    for (const sha256 of new Set(Object.values(digests) as (Sha256 | null)[])) {
      if (sha256 === null) continue
      const use = uses.get(sha256)
      uses.set(sha256, { ...use, count: (use?.count ?? 0) + Number(vms) })
    }
  }
  return uses
}

/** SQL of the uses by VMs on record. It goes through the index `vms_by_images`, and not through the records. */
export const USES = `SELECT ${DIGESTS.map((path) => `desired ->> '${path}'`).join(', ')}, count(*) AS vms
  FROM vms GROUP BY 1, 2, 3`

/** Returns the first VMs on record that use an image, by their ids. */
export function readImageUsers(db: DatabaseSync, sha256: Sha256, most: number): readonly VmId[] {
  return db
    .prepare(USERS)
    .all(sha256, most)
    .map(({ id }) => id as VmId)
}

/** SQL of the VMs on record that use an image. */
const USERS = `SELECT id FROM vms WHERE ?1 IN (${DIGESTS.map((path) => `desired ->> '${path}'`).join(', ')})
  ORDER BY id LIMIT ?2`

/** Forgets the uses of an image that is gone. */
export function forgetImageUses(db: DatabaseSync, sha256: Sha256): void {
  db.prepare('DELETE FROM image_uses WHERE sha256 = ?').run(sha256)
}

/** An image to remove. A removal that an earlier version stored has no operation. */
export type StoredRemoval = { readonly sha256: Sha256; readonly operationId?: OperationId }

/** Images that the controller wants removed, until they are gone. Storing a VM withdraws the removal of its images. */
export class ImageRemovals {
  readonly #db: DatabaseSync
  readonly #transactions: Transactions
  readonly #all: StatementSync
  readonly #get: StatementSync
  readonly #note: StatementSync

  constructor(db: DatabaseSync, transactions: Transactions) {
    this.#db = db
    this.#transactions = transactions
    this.#all = db.prepare('SELECT sha256, operation_id AS operationId FROM image_removals ORDER BY sha256')
    this.#get = db.prepare('SELECT sha256 FROM image_removals WHERE sha256 = ?')
    this.#note = db.prepare(
      'INSERT INTO image_removals (sha256, asked_at_ms, operation_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
    )
  }

  all(): readonly StoredRemoval[] {
    return this.#all.all().map((row) => {
      const { sha256, operationId } = row as { sha256: Sha256; operationId: OperationId | null }
      return { sha256, ...given({ operationId: operationId ?? undefined }) }
    })
  }

  has(sha256: Sha256): boolean {
    return this.#get.get(sha256) !== undefined
  }

  /**
   * Notes that the image must be removed. The caller has checked, in the same transaction, that no VM on record uses
   * it.
   */
  note(sha256: Sha256, nowMs: number, operationId: OperationId): void {
    this.#transactions.commit(() => {
      this.#note.run(sha256, nowMs, operationId)
    })
  }

  /** Forgets images that are gone. An image whose removal was withdrawn meanwhile keeps its uses on record. */
  forget(images: readonly Sha256[]): void {
    this.#transactions.commit(() => {
      for (const sha256 of images) {
        if (!this.has(sha256)) continue
        this.#db.prepare('DELETE FROM image_removals WHERE sha256 = ?').run(sha256)
        forgetImageUses(this.#db, sha256)
      }
    })
  }
}
