import { inOrder } from './facet.ts'
import { removeUnit } from './plan-power.ts'
import { diskForeign } from './plan-storage.ts'
import { isGone } from '../world/world.ts'
import { mustEnd } from '../vm/stops.ts'
import type { VmRecord } from '../vm/record.ts'
import type { Blocked, Plan } from './step.ts'
import type { World } from '../world/world.ts'

/**
 * Plans for a VM whose name another VM on this host uses, for example after an older state directory was restored. The
 * plan touches nothing of the other VM, and a deletion leaves it in place. Returns undefined if nothing foreign is in
 * the way.
 */
export function planForeign(record: VmRecord, world: World): Plan | undefined {
  const { unit, storage } = world
  if (unit.known && unit.value.kind === 'foreign') {
    return record.deleting ? { outcome: 'settled' } : unitForeign(record, unit.value.because)
  }
  if (!storage.known || storage.value.disk.kind !== 'foreign') return undefined
  const blocked = diskForeign(record, storage.value.disk)
  const hasUnit = !unit.known || !isGone(unit.value)
  // A console and a tap without a unit may belong to the other VM, which may be asleep.
  if (record.deleting) return hasUnit ? undefined : { outcome: 'settled' }
  const isLive = unit.known && unit.value.kind === 'active' && !mustEnd(record)
  return isLive
    ? undefined
    : inOrder(
        () => removeUnit(record, world),
        () => blocked,
      )
}

const unitForeign = ({ id }: VmRecord, because: string): Blocked => ({
  outcome: 'blocked',
  step: 'unit.ensure-started',
  code: 'unit_foreign',
  retry: 'backoff',
  because: `there is a unit with the name of ${id}, and ${because}; stop that unit by hand, or delete VM ${id}`,
})
