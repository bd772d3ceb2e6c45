import { beside, inOrder } from './facet.ts'
import { ensureAttached, ensureNetwork, leaveFormerAddresses, removeNetwork } from './plan-network.ts'
import { ensureStorage, growStoppedDisk, limitDisk, removeDisk, showGrowth } from './plan-storage.ts'
import { ensurePower, removeConsole, removeUnit } from './plan-power.ts'
import type { VmRecord } from '../vm/record.ts'
import type { Facts } from './facts.ts'
import type { Plan } from './step.ts'
import type { World } from './world.ts'

/**
 * The way from what the host shows to what is desired. Synchronous, total, the same for the same arguments.
 *
 * The order tells the story. What must go goes first. A live guest's power is set before its surroundings are mended,
 * and a stop needs no look at storage or network, so neither waits for a fault there; nor does one of its surroundings
 * wait for another. A guest that does not live yet is started last, on a disk, a tap and a firewall that are seen to be
 * there.
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
  const storage = () => ensureStorage(record, world, facts)
  const network = () => ensureNetwork(world, facts)
  if (record.desired.power === 'stopped') {
    const stop = [() => removeUnit(record, world), () => removeConsole(world)]
    const rest = isCreation(record)
      ? [storage, network]
      : [
          () =>
            beside({
              storage: [() => growStoppedDisk(record, world)],
              network: [() => leaveFormerAddresses(world, facts)],
            }),
        ]
    return inOrder(...stop, ...rest)
  }
  const live = world.unit.known && world.unit.value.kind === 'active'
  const removal = () => removeUnit(record, world)
  const power = () => ensurePower(record, world, facts)
  if (!live) return inOrder(removal, storage, network, power)
  const lanes = {
    power: [power, () => limitDisk(record, world)],
    storage: [storage, () => showGrowth(record, world, facts)],
    network: [network, () => ensureAttached(world, facts)],
  }
  return inOrder(removal, () => beside(lanes))
}

/** Its power is that of its creation: a VM that is created stopped is made ready; one that is stopped just stops. */
const isCreation = ({ powerGeneration }: VmRecord): boolean => powerGeneration === 1
