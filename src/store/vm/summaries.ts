import { parametersOf, selected, selectionOf } from './vm-query.ts'
import type { Generation, VmId } from '../../core/ids.ts'
import type { MonitorKind } from '../../core/monitor/monitor-kind.ts'
import type { Observed, ObservedState, VmSummary } from '../../core/vm/record.ts'
import type { Statements } from '../database/transactions.ts'
import type { VmQuery } from './vm-query.ts'
import type { UnwrittenProgress } from './vm-row.ts'

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
