import { inOrder } from './facet.ts'
import { removeDisk } from './plan-storage.ts'
import { ensureNetwork, removeNetwork } from './plan-network.ts'
import { ensureStorage } from './plan-storage.ts'
import { ensurePower, removeConsole, removeUnit } from './plan-power.ts'
import type { VmRecord } from '../vm/record.ts'
import type { Facts } from './facts.ts'
import type { Plan } from './step.ts'
import type { World } from './world.ts'

/**
 * The way from what the host shows to what is desired. Synchronous, total, the same for the same arguments.
 *
 * The order tells the story. What must go goes first. A live guest's power is set before its surroundings are mended,
 * and a stop needs no look at storage or network, so neither waits for a fault there. A guest that does not live yet
 * is started last, on a disk, a tap and a firewall that are seen to be there.
 */
export function plan(record: VmRecord, world: World, facts: Facts): Plan {
  if (record.deleting) {
    return inOrder(
      () => removeUnit(record, world),
      () => removeConsole(world),
      () => removeNetwork(world),
      () => removeDisk(world),
    )
  }
  const surroundings = [() => ensureStorage(record, world, facts), () => ensureNetwork(world, facts)]
  if (record.desired.power === 'stopped') {
    const stop = [() => removeUnit(record, world), () => removeConsole(world)]
    return isCreation(record) ? inOrder(...stop, ...surroundings) : inOrder(...stop)
  }
  const live = world.unit.known && world.unit.value.kind === 'active'
  const power = [() => removeUnit(record, world), () => ensurePower(record, world, facts)]
  return live ? inOrder(...power, ...surroundings) : inOrder(...surroundings, ...power)
}

/** Nothing was asked since the creation: a VM that is created stopped is made ready; one that is stopped just stops. */
const isCreation = ({ generations }: VmRecord): boolean => generations.desired === 1
