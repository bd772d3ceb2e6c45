import { renameSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { migrate } from '../src/store/database/migrations.ts'

/**
 * Turns the closed store in a directory into one that a build of that schema would have written,
 * with its tables and columns.
 */
export function ageStore(directory: string, version: number): void {
  const path = `${directory}/vmhostd.db`
  renameSync(path, `${path}.new`)
  const db = new DatabaseSync(path)
  db.exec('PRAGMA journal_mode = WAL')
  migrate(db, version)
  db.exec(`ATTACH '${path}.new' AS new`)
  const tables = db.prepare(`SELECT name FROM main.sqlite_schema WHERE type = 'table'`).all()
  for (const table of tables.map(({ name }) => String(name))) {
    const columns = db.prepare('SELECT name FROM pragma_table_info(?)').all(table)
    const names = columns.map(({ name }) => String(name)).join(', ')
    db.exec(`INSERT INTO main.${table} (${names}) SELECT ${names} FROM new.${table}`)
  }
  db.close()
}
