import type { DatabaseSync } from 'node:sqlite'
import type { VmRow } from './vm-row.ts'

/**
 * The result of a pass, as the row of a VM holds it. The observed generation is not included: it rises only on the
 * disk.
 */
export type ProgressColumns = Pick<
  VmRow,
  | 'observed'
  | 'state'
  | 'launch'
  | 'wake'
  | 'may_be_saved'
  | 'stop_carried_out'
  | 'exit_streak'
  | 'revision'
  | 'updated_at_ms'
>

/** SQL that sets the columns by their names. */
export const SET_PROGRESS = `UPDATE vms SET observed = :observed, state = :state, launch = :launch, wake = :wake,
  may_be_saved = :may_be_saved, stop_carried_out = :stop_carried_out, exit_streak = :exit_streak, revision = :revision,
  updated_at_ms = :updated_at_ms`

/**
 * Holds progress that could not be written, but is shown and acted on. The next write of anything writes it first, so
 * no change is made without it. It is lost when the process ends; another look then finds it again.
 */
export class UnwrittenProgress {
  readonly #db: DatabaseSync
  readonly #byVm = new Map<string, ProgressColumns>()

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  get isEmpty(): boolean {
    return this.#byVm.size === 0
  }

  has(id: string): boolean {
    return this.#byVm.has(id)
  }

  get(id: string): ProgressColumns | undefined {
    return this.#byVm.get(id)
  }

  keep(id: string, columns: ProgressColumns): void {
    this.#byVm.set(id, columns)
  }

  /** Returns a row with the unwritten progress applied. */
  on(row: VmRow): VmRow {
    return { ...row, ...this.#byVm.get(row.id) }
  }

  /**
   * Writes all progress; call it outside of any transaction. Throws what SQLite throws, and keeps all progress then.
   */
  write(): void {
    if (this.isEmpty) return
    const statement = this.#db.prepare(`${SET_PROGRESS} WHERE id = :id`)
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      for (const [id, columns] of this.#byVm) statement.run({ ...columns, id })
      this.#db.exec('COMMIT')
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
    this.#byVm.clear()
  }
}
