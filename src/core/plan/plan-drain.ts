import { when, inOrder } from './facet.ts'
import { removeUnit } from './plan-power.ts'
import { holdFrames, saveAnyway } from './plan-sleep.ts'
import { hasForeignDisk } from './plan-storage.ts'
import { WAIT_FOR_MAINTENANCE } from './plan-waits.ts'
import type { VmRecord } from '../vm/record.ts'
import type { World } from '../world/world.ts'
import type { Facet, Facts } from './facet.ts'
import type { Plan } from './step.ts'

const DRAINED = 'the host is drained'

/**
 * Returns whether a guest in a unit must be saved for the maintenance of the host. A guest whose disk failed is resumed
 * first.
 */
export const mustSaveForDrain = (world: World, { drain }: Facts): boolean =>
  drain === 'save' &&
  !hasForeignDisk(world) &&
  !(world.monitor.known && world.monitor.value.kind === 'stalled')

/** Plans for a guest that must come to rest: it is saved whatever its traffic. Another look ends its unit. */
export const planSaveForDrain = (record: VmRecord, world: World, facts: Facts): Plan =>
  inOrder(
    () => removeUnit(record, world),
    () => (facts.capabilities.save ? [] : cannotSave(record)),
    // As at the end of the host, a guest whose traffic cannot be seen is saved all the same.
    () => (world.traffic.known ? holdFrames(world, facts, DRAINED) : []),
    () => when('unit', world.unit, () => saveAnyway(world, facts.silentMs, DRAINED)),
    () => WAIT_FOR_MAINTENANCE,
  )

const cannotSave = ({ id, monitor }: VmRecord): Facet => ({
  outcome: 'blocked',
  step: 'monitor.ensure-saved',
  code: 'sleep_unsupported',
  retry: 'backoff',
  because: `the ${monitor} of this host cannot save ${id}: drain the host with guests that stop, or move ${id} to another host`,
})
