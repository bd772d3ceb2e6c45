import { Statements } from './transactions.ts'
import type { DatabaseSync } from 'node:sqlite'

/** The table `meta`: texts by their keys. A version of the daemon passes over keys that it does not know. */
export class Meta {
  readonly #statements: Statements

  constructor(db: DatabaseSync) {
    this.#statements = new Statements(db)
  }

  get(key: string): string | undefined {
    const row = this.#statements.of('SELECT value FROM meta WHERE key = ?').get(key)
    return row && String(row['value'])
  }

  /** Writes a row; the caller gives the transaction. */
  set(key: string, value: string): void {
    this.#statements
      .of('INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2')
      .run(key, value)
  }
}
