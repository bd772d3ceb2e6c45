import { given } from '../../lib/given.ts'
import type { SnapshotId } from '../../core/snapshots/record.ts'
import type { VmId } from '../../core/ids.ts'
import type { Audited, FindVersions, Versions } from '../listener/audit.ts'
import type { ApiDependencies } from './dependencies.ts'

/** A VM, or a snapshot, which has no generations. */
type Versioned = { readonly revision: number; readonly generations?: { readonly desired: number } }

/** Returns the versions of a record for the audit trail; undefined without a record. */
export const versionsOf = (record: Versioned | undefined): Versions | undefined =>
  record && { ...given({ generation: record.generations?.desired }), revision: record.revision }

type Change = {
  readonly before: Versioned | undefined
  readonly after: Versioned
  readonly changed: boolean
}

/** Returns what an accepted mutation did, for the audit trail. */
export const auditedChange = ({ before, after, changed }: Change): Audited => ({
  ...given({ before: versionsOf(before), after: versionsOf(after) }),
  ...(changed ? {} : { outcome: 'unchanged' }),
})

/** Finds the versions of what a refused request is about. Before the store is open there are none. */
export const findVersions =
  (dependencies: Pick<ApiDependencies, 'context'>): FindVersions =>
  ({ vm_id, snapshot_id }) => {
    const store = dependencies.context()?.store
    if (vm_id !== undefined) return versionsOf(store?.vms.get(vm_id as VmId))
    return snapshot_id === undefined ? undefined : versionsOf(store?.snapshots.get(snapshot_id as SnapshotId))
  }
