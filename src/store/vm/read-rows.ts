import { parametersOf, selected, selectionOf } from './vm-query.ts'
import { recordOf } from './vm-row.ts'
import type { VmRecord } from '../../core/vm/record.ts'
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

/** A VM and its revision. Without a record if that cannot be read, which the pass of the VM reports. */
export type ChangedVm = { readonly revision: number; readonly record?: VmRecord }

type Changes = { readonly revision: number; readonly limit: number }

/** Returns the VMs with a later revision, in the order of revisions. */
export const readChanged = (
  statements: Statements,
  unwritten: UnwrittenProgress,
  changes: Changes,
): readonly ChangedVm[] =>
  changedRows(statements, unwritten, changes).map((row) => {
    const { revision } = row
    try {
      return { revision, record: recordOf(row) }
    } catch {
      return { revision }
    }
  })

function changedRows(
  statements: Statements,
  unwritten: UnwrittenProgress,
  { revision, limit }: Changes,
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
