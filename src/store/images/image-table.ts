import { given } from '../../lib/given.ts'
import { Statements } from '../database/transactions.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { OperationId, Sha256, VmId } from '../../core/ids.ts'
import type { Transactions } from '../database/transactions.ts'

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

/** SQL of the uses by VMs on record. It goes through the index `vms_by_images`, and not through the records. */
export const USES = `SELECT ${DIGESTS.map((path) => `desired ->> '${path}'`).join(', ')}, count(*) AS vms
  FROM vms GROUP BY 1, 2, 3`

/** SQL of the VMs on record that use an image. */
const USERS = `SELECT id FROM vms WHERE ?1 IN (${DIGESTS.map((path) => `desired ->> '${path}'`).join(', ')})
  ORDER BY id LIMIT ?2`

/** An image to remove. A removal that an earlier version stored has no operation. */
export type StoredRemoval = { readonly sha256: Sha256; readonly operationId?: OperationId }

/**
 * The uses of images, and the images that the controller wants removed, until they are gone. Storing a VM withdraws the
 * removal of its images.
 */
export class ImageTable {
  readonly #transactions: Transactions
  readonly #statements: Statements

  constructor(db: DatabaseSync, transactions: Transactions) {
    this.#transactions = transactions
    this.#statements = new Statements(db)
  }

  /** Returns every image that a VM on record uses or used. */
  uses(): ReadonlyMap<Sha256, ImageUse> {
    const uses = new Map<Sha256, ImageUse>()
    const used = this.#statements.of('SELECT sha256, last_used_at_ms AS lastUsedAtMs FROM image_uses')
    for (const row of used.all()) {
      const { sha256, lastUsedAtMs } = row as { sha256: Sha256; lastUsedAtMs: number }
      uses.set(sha256, { count: 0, lastUsedAtMs })
    }
    // Grouped, because thousands of VMs have a few images between them.
    for (const { vms, ...digests } of this.#statements.of(USES).all()) {
      // A VM that has an image in two roles uses it once.
      for (const sha256 of new Set(Object.values(digests) as (Sha256 | null)[])) {
        if (sha256 === null) continue
        const use = uses.get(sha256)
        uses.set(sha256, { ...use, count: (use?.count ?? 0) + Number(vms) })
      }
    }
    return uses
  }

  /** Returns at most so many of the VMs on record that use an image, in the order of their ids. */
  users(sha256: Sha256, most: number): readonly VmId[] {
    return this.#statements
      .of(USERS)
      .all(sha256, most)
      .map(({ id }) => id as VmId)
  }

  /** Notes that the image is gone from the pool. */
  forgetUses(sha256: Sha256): void {
    this.#transactions.commit(() => {
      this.#statements.of('DELETE FROM image_uses WHERE sha256 = ?').run(sha256)
    })
  }

  removals(): readonly StoredRemoval[] {
    const all = this.#statements.of(
      'SELECT sha256, operation_id AS operationId FROM image_removals ORDER BY sha256',
    )
    return all.all().map((row) => {
      const { sha256, operationId } = row as { sha256: Sha256; operationId: OperationId | null }
      return { sha256, ...given({ operationId: operationId ?? undefined }) }
    })
  }

  hasRemoval(sha256: Sha256): boolean {
    return this.#statements.of('SELECT 1 FROM image_removals WHERE sha256 = ?').get(sha256) !== undefined
  }

  /**
   * Notes that the image must be removed. The caller has checked, in the same transaction, that no VM on record uses
   * it.
   */
  noteRemoval(sha256: Sha256, nowMs: number, operationId: OperationId): void {
    this.#transactions.commit(() => {
      this.#statements
        .of(
          'INSERT INTO image_removals (sha256, asked_at_ms, operation_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
        )
        .run(sha256, nowMs, operationId)
    })
  }

  /** Forgets images that are gone. An image whose removal was withdrawn meanwhile keeps its uses on record. */
  forgetRemoved(images: readonly Sha256[]): void {
    this.#transactions.commit(() => {
      for (const sha256 of images) {
        if (!this.hasRemoval(sha256)) continue
        this.#statements.of('DELETE FROM image_removals WHERE sha256 = ?').run(sha256)
        this.forgetUses(sha256)
      }
    })
  }
}
