import type { DatabaseSync } from 'node:sqlite'
import type { Generation, Sha256, VmId } from '../core/vm/ids.ts'
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

/** Digests of all images that a VM on record is made of. */
export function readImagesInUse(db: DatabaseSync): ReadonlySet<Sha256> {
  const roles = ['rootfs', 'kernel', 'initrd']
  const selects = roles.map((role) => `SELECT desired ->> '$.image.${role}Sha256' AS sha256 FROM vms`)
  const rows = db.prepare(selects.join(' UNION ')).all() as { sha256: Sha256 | null }[]
  return new Set(rows.map(({ sha256 }) => sha256).filter((sha256) => sha256 !== null))
}
