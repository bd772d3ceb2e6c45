import type { DatabaseSync } from 'node:sqlite'

/** Returns whether a table is there and has that column. Records of the first versions lack some. */
export const hasColumn = (db: DatabaseSync, table: string, column: string): boolean =>
  db.prepare('SELECT 1 FROM pragma_table_info(?) WHERE name = ?').get(table, column) !== undefined

/** SQL of a member of a column with JSON; NULL also if that is not JSON, which `->>` alone refuses for all rows. */
export const memberOf = (column: string, member: string): string =>
  `iif(json_valid(${column}), ${column} ->> '$.${member}', NULL)`
