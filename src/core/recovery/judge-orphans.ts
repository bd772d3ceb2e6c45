import { isGone } from '../world/world.ts'
import type { VmId } from '../ids.ts'
import type { UnitState } from '../world/world.ts'
import type { Restored } from './judge-restored.ts'

/** Units and disks of VMs on the host, whatever the records say. */
export type HostListing = {
  readonly units: readonly {
    readonly id: VmId
    readonly state: UnitState
    readonly storeId: string | undefined
  }[]
  /** Ids that have a directory in the pool. */
  readonly disks: readonly VmId[]
}

/**
 * Returns what the daemon does with VMs of the host that have no record. It sweeps a unit of its own store that has no
 * disk, and leaves everything else alone ([0004](../../../docs/adr/0004-what-a-sweep-may-remove.md)).
 */
export function judgeOrphans(
  { units, disks }: HostListing,
  recorded: ReadonlySet<VmId>,
  storeId: string,
): ReadonlyMap<VmId, Restored> {
  const withDisk = new Set(disks)
  const judged = new Map<VmId, Restored>()
  for (const id of withDisk) judged.set(id, { kind: 'lacks', because: 'its disk stays, without a record' })
  for (const { id, state, storeId: owner } of units) {
    if (isGone(state)) continue
    const isSwept = owner === storeId && !withDisk.has(id)
    judged.set(
      id,
      isSwept
        ? { kind: 'ends', because: 'its guest runs, and it has neither a record nor a disk' }
        : { kind: 'lacks', because: 'its guest runs on, without a record' },
    )
  }
  for (const id of recorded) judged.delete(id)
  return judged
}
