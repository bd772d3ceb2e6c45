import { parametersOf, selected, selectionOf } from './vm-query.ts'
import type { Generation, VmId } from '../../core/ids.ts'
import type { MonitorKind } from '../../core/monitor/monitor-kind.ts'
import type {
  Observed,
  ObservedState,
  PendingWake,
  VmRecord,
  VmSummary,
  Wanted,
} from '../../core/vm/record.ts'
import type { Statements } from '../database/transactions.ts'
import type { VmQuery } from './vm-query.ts'
import type { UnwrittenProgress, VmRow } from './vm-row.ts'

type SummaryRow = {
  readonly id: VmId
  readonly state: ObservedState
  readonly monitor: MonitorKind
  readonly memoryMib: number
  readonly desired: Generation
  readonly observed: Generation
  readonly fault: string | null
  readonly partialFaults: string | null
}

/**
 * Returns summaries of VMs in the order of ids. It reads only the columns that it returns, so thousands of VMs cost
 * milliseconds.
 */
export const readSummaries = (
  statements: Statements,
  unwritten: UnwrittenProgress,
  query: VmQuery,
): readonly VmSummary[] =>
  selected(query, unwritten, (asked) =>
    (statements.of(`${SUMMARIES} ${selectionOf(asked)}`).all(...parametersOf(asked)) as SummaryRow[]).map(
      (row) => summaryOf(row, unwritten),
    ),
  )

const SUMMARIES = `SELECT id, state, monitor, memory_mib AS memoryMib, desired_generation AS desired,
  observed_generation AS observed, observed ->> '$.fault' AS fault, observed ->> '$.partialFaults' AS partialFaults
  FROM vms`

/** A VM and the revision that it has now. */
export type RevisionOf = Pick<VmRecord, 'id' | 'revision'>

/** Returns the revisions of VMs in the order of ids. */
export const readRevisions = (
  statements: Statements,
  unwritten: UnwrittenProgress,
  query: VmQuery,
): readonly RevisionOf[] =>
  selected(query, unwritten, (asked) => {
    const sql = `SELECT id, state, revision FROM vms ${selectionOf(asked)}`
    const rows = statements.of(sql).all(...parametersOf(asked)) as Pick<VmRow, 'id' | 'state' | 'revision'>[]
    return rows.map((row) => {
      const { state, revision } = unwritten.get(row.id) ?? row
      return { id: row.id as VmId, state, revision }
    })
  })

/** Returns the revision of a VM; undefined if there is none with that id. */
export function readRevision(
  statements: Statements,
  unwritten: UnwrittenProgress,
  id: VmId,
): RevisionOf | undefined {
  const row = statements.of('SELECT revision FROM vms WHERE id = ?').get(id) as
    | Pick<VmRow, 'revision'>
    | undefined
  return row && { id, revision: (unwritten.get(id) ?? row).revision }
}

function summaryOf(row: SummaryRow, unwritten: UnwrittenProgress): VmSummary {
  const { id, state, monitor, memoryMib, desired, observed, fault, partialFaults } = row
  const summary = { id, monitor, memoryMib, generations: { desired, observed } }
  const kept = unwritten.get(id)
  if (kept !== undefined) return { ...summary, ...shownOf(JSON.parse(kept.observed) as Observed) }
  return {
    ...summary,
    state,
    ...(fault === null ? {} : { fault: JSON.parse(fault) as NonNullable<Observed['fault']> }),
    ...(partialFaults === null
      ? {}
      : { partialFaults: JSON.parse(partialFaults) as NonNullable<Observed['partialFaults']> }),
  }
}

const shownOf = ({
  state,
  fault,
  partialFaults,
}: Observed): Pick<VmSummary, 'state' | 'fault' | 'partialFaults'> => ({
  state,
  ...(fault === undefined ? {} : { fault }),
  ...(partialFaults === undefined ? {} : { partialFaults }),
})

/** Returns the observed state of each VM in the order of ids. */
export function readStates(
  statements: Statements,
  unwritten: UnwrittenProgress,
): ReadonlyMap<VmId, ObservedState> {
  const rows = statements.of('SELECT id, state FROM vms ORDER BY id').all() as Pick<
    VmSummary,
    'id' | 'state'
  >[]
  return new Map(rows.map(({ id, state }) => [id, (unwritten.get(id)?.state ?? state) as ObservedState]))
}

/** Returns what a request may change while a pass acts; undefined if the VM is gone. */
export function readWanted(
  statements: Statements,
  unwritten: UnwrittenProgress,
  id: VmId,
): Wanted | undefined {
  const row = statements.of('SELECT desired_generation, wake FROM vms WHERE id = ?').get(id) as
    | Pick<VmRow, 'desired_generation' | 'wake'>
    | undefined
  if (row === undefined) return undefined
  const { wake } = unwritten.get(id) ?? row
  const generations = { desired: row.desired_generation as Generation }
  return wake === null ? { generations } : { generations, wake: JSON.parse(wake) as PendingWake }
}
