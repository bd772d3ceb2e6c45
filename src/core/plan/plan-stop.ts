import { inOrder, when } from './facet.ts'
import { endConsole, removeUnit, whyStop } from './plan-power.ts'
import { mayBeSaved } from './plan-wake.ts'
import { owesStop } from '../vm/stops.ts'
import type { VmRecord } from '../vm/record.ts'
import type { Facet } from './facet.ts'
import type { World } from '../world/world.ts'

/** Lists what a stop removes, in this order: the unit, the console session, and the saved state of the guest. */
export const removeGuest = (record: VmRecord, world: World): readonly (() => Facet)[] => [
  () => removeUnit(record, world),
  () => endConsole(world),
  () => removeSaved(record, world),
]

/** Returns whether this look finds nothing left for the newest stop to remove, while the record does not say so yet. */
export const isStopCarriedOut = (record: VmRecord, world: World): boolean =>
  owesStop(record) && inOrder(...removeGuest(record, world)).outcome === 'settled'

/** Removes the saved state. If the pool cannot be inspected, the stop waits only when something may be saved there. */
function removeSaved(record: VmRecord, { saved }: World): Facet {
  if (!saved.known && !mayBeSaved(record)) return []
  return when('storage', saved, ({ kind }) =>
    kind === 'absent' ? [] : [{ kind: 'storage.remove-saved', because: whyStop(record) }],
  )
}
