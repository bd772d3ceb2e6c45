import type { DatabaseSync, StatementSync } from 'node:sqlite'

/** Statements of a database, each prepared once. */
export class Statements {
  readonly #db: DatabaseSync
  readonly #prepared = new Map<string, StatementSync>()

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  of(text: string): StatementSync {
    let statement = this.#prepared.get(text)
    if (statement === undefined) {
      statement = this.#db.prepare(text)
      this.#prepared.set(text, statement)
    }
    return statement
  }
}
