import { limits } from '../../config/limits.ts'
import { StateUnwritable, Statements } from '../database/transactions.ts'
import { END_LOAN } from './vm-row.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../../core/ids.ts'
import type { Transactions } from '../database/transactions.ts'
import type { UnwrittenProgress } from './vm-row.ts'

/** When an idle VM may sleep early. Only traffic during the present run counts. */
const EARLY_SLEEP_AT_MS = `max(ifnull(observed ->> '$.lastTrafficAtMs', 0), observed ->> '$.sinceMs')
  + ${limits.earlySleepShare * 1000} * (desired ->> '$.compute.sleepAfterIdleSeconds')`

/** A wake of the VM may wait for memory. */
const MAY_WAIT = `ifnull(desired ->> '$.compute.wake', '') <> 'guaranteed'`

/**
 * Notes which VMs have lent their memory, and which of them wait to have it back. The notes are not flushed: they
 * outlive the daemon, and after a power cut no guest has memory. No reader sees them, so no revision rises.
 */
export class MemoryLoans {
  readonly #transactions: Transactions
  readonly #statements: Statements
  readonly #unwritten: UnwrittenProgress

  constructor(db: DatabaseSync, transactions: Transactions, unwritten: UnwrittenProgress) {
    this.#transactions = transactions
    this.#unwritten = unwritten
    this.#statements = new Statements(db)
  }

  /**
   * Notes that the VM's memory is for others until it has it back.
   * Does nothing for a VM whose wake is guaranteed by now.
   */
  lend(id: VmId): void {
    this.#write(`UPDATE vms SET memory_lent = 1, memory_wanted_at_ms = NULL WHERE id = ? AND ${MAY_WAIT}`, id)
  }

  /** Notes that the VM has its memory back. The note is kept in memory while it cannot be written. */
  end(id: VmId): void {
    try {
      this.#write(END_LOAN, id)
    } catch (error) {
      if (!(error instanceof StateUnwritable) || this.#transactions.isOpen) throw error
      this.#unwritten.keepLoanEnd(id)
    }
  }

  /** Puts a VM at the end of the queue; it keeps the place that it has. */
  want(id: VmId, nowMs: number): void {
    // The newest time may be later than now if the clock was set back.
    this.#write(
      `UPDATE vms SET memory_wanted_at_ms = max(?2, (SELECT ifnull(max(memory_wanted_at_ms), 0) + 1 FROM vms))
       WHERE id = ?1 AND memory_lent AND memory_wanted_at_ms IS NULL`,
      id,
      nowMs,
    )
  }

  /** Takes a VM out of the queue. */
  leave(id: VmId): void {
    this.#write('UPDATE vms SET memory_wanted_at_ms = NULL WHERE id = ?', id)
  }

  /** Returns the VMs that wait for memory, the next one first. */
  queue(): readonly VmId[] {
    return this.#statements
      .of('SELECT id FROM vms WHERE memory_wanted_at_ms IS NOT NULL ORDER BY memory_wanted_at_ms')
      .all()
      .map((row) => row['id'] as VmId)
      .filter((id) => !this.#unwritten.endedLoans.has(id))
  }

  /**
   * Returns VMs that may lend their memory: stopped ones, and then running ones that may sleep, in the order in which
   * they may do so early. A VM that must stay awake is left out, so that it takes no place of another.
   */
  idlest(limit: number, nowMs: number): readonly VmId[] {
    return this.#statements
      .of(
        `SELECT id FROM vms WHERE NOT memory_lent AND ${MAY_WAIT} AND (
           state = 'stopped' OR (state = 'running' AND can_sleep AND ifnull(keep_awake_until_ms, 0) <= ?))
         ORDER BY state = 'running', ${EARLY_SLEEP_AT_MS}, id LIMIT ?`,
      )
      .all(nowMs, limit)
      .map((row) => row['id'] as VmId)
  }

  #write(sql: string, ...values: readonly (string | number)[]): void {
    this.#transactions.writeAlone(() => this.#statements.of(sql).run(...values))
  }
}
