import { parametersOf, selected, selectionOf } from './vm-query.ts'
import type { Statements } from '../database/transactions.ts'
import type { VmQuery } from './vm-query.ts'
import type { UnwrittenProgress, VmRow } from './vm-row.ts'

/** Returns the rows that a query selects, in the order of ids. */
export const selectedRows = (
  statements: Statements,
  unwritten: UnwrittenProgress,
  query: VmQuery,
): readonly VmRow[] =>
  selected(query, unwritten, (asked) => {
    const rows = statements.of(`SELECT * FROM vms ${selectionOf(asked)}`).all(...parametersOf(asked))
    return (rows as VmRow[]).map((row) => unwritten.on(row))
  })

/** Returns the rows with a later revision, in the order of revisions. */
export function changedRows(
  statements: Statements,
  unwritten: UnwrittenProgress,
  { revision, limit }: { readonly revision: number; readonly limit: number },
): readonly VmRow[] {
  if (unwritten.isEmpty) {
    const sql = 'SELECT * FROM vms WHERE revision > ? ORDER BY revision LIMIT ?'
    return statements.of(sql).all(revision, limit) as VmRow[]
  }
  // The revision on the disk may differ from the one that is shown.
  const rows = statements.of('SELECT * FROM vms').all() as VmRow[]
  const changed = rows.map((row) => unwritten.on(row)).filter((row) => row.revision > revision)
  return changed.toSorted((a, b) => a.revision - b.revision).slice(0, limit)
}
