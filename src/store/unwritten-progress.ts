import type { DatabaseSync } from 'node:sqlite'
import type { VmRow } from './vm-row.ts'

/** What a pass found of a VM, as its row has it. The observed generation is not among it: it rises on the disk alone. */
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

/** Sets them, by their names. */
export const SET_PROGRESS = `UPDATE vms SET observed = :observed, state = :state, launch = :launch, wake = :wake,
  may_be_saved = :may_be_saved, stop_carried_out = :stop_carried_out, exit_streak = :exit_streak, revision = :revision,
  updated_at_ms = :updated_at_ms`

/**
 * Progress that could not be written, and is shown and acted on all the same. The next write of anything writes it first,
 * so no change is ever made beside it. It ends with the process; then it is found again by looking.
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

  /** A row as it would be. */
  on(row: VmRow): VmRow {
    return { ...row, ...this.#byVm.get(row.id) }
  }

  /** Outside of any transaction. Throws what SQLite throws, and keeps all of it then. */
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
