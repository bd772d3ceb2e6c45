import type { DatabaseSync } from 'node:sqlite'
import type { UnwrittenProgress } from './unwritten-progress.ts'
import type { Generation, VmId } from '../../core/ids.ts'
import type { Observed, ObservedState, VmSummary } from '../../core/vm/record.ts'

type SummaryRow = {
  readonly id: VmId
  readonly state: ObservedState
  readonly desired: Generation
  readonly observed: Generation
  readonly fault: string | null
  readonly partialFaults: string | null
}

/**
 * Returns every VM in the order of ids. It reads only the columns that it returns, so thousands of VMs cost
 * milliseconds.
 */
export function readSummaries(db: DatabaseSync, unwritten: UnwrittenProgress): readonly VmSummary[] {
  const rows = db
    .prepare(
      `SELECT id, state, desired_generation AS desired, observed_generation AS observed,
         observed ->> '$.fault' AS fault, observed ->> '$.partialFaults' AS partialFaults FROM vms ORDER BY id`,
    )
    .all() as SummaryRow[]
  return rows.map((row) => {
    const { id, state, desired, observed, fault, partialFaults } = row
    const summary = { id, generations: { desired, observed } }
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
  })
}

const shownOf = ({ state, fault, partialFaults }: Observed): Omit<VmSummary, 'id' | 'generations'> => ({
  state,
  ...(fault === undefined ? {} : { fault }),
  ...(partialFaults === undefined ? {} : { partialFaults }),
})
