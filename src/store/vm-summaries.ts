import type { DatabaseSync } from 'node:sqlite'
import type { Generation, VmId } from '../core/vm/ids.ts'
import type { Observed, ObservedState } from '../core/vm/record.ts'

/** What tells where a VM stands, without all that it is. */
export type VmSummary = {
  readonly id: VmId
  readonly generations: { readonly desired: Generation; readonly observed: Generation }
  readonly state: ObservedState
} & Pick<Observed, 'fault' | 'partialFaults'>

type SummaryRow = {
  readonly id: VmId
  readonly state: ObservedState
  readonly desired: Generation
  readonly observed: Generation
  readonly fault: string | null
  readonly partialFaults: string | null
}

/** Every VM in the order of ids. Reads of each only what is told, so that thousands cost milliseconds. */
export function readSummaries(db: DatabaseSync): readonly VmSummary[] {
  const rows = db
    .prepare(
      `SELECT id, state, desired_generation AS desired, observed_generation AS observed,
         observed ->> '$.fault' AS fault, observed ->> '$.partialFaults' AS partialFaults FROM vms ORDER BY id`,
    )
    .all() as SummaryRow[]
  return rows.map(({ id, state, desired, observed, fault, partialFaults }) => ({
    id,
    state,
    generations: { desired, observed },
    ...(fault === null ? {} : { fault: JSON.parse(fault) as NonNullable<Observed['fault']> }),
    ...(partialFaults === null
      ? {}
      : { partialFaults: JSON.parse(partialFaults) as NonNullable<Observed['partialFaults']> }),
  }))
}
