import { limits } from '../../config/limits.ts'
import { areHeld } from '../world/network-state.ts'
import { isUnitActive } from '../world/world.ts'
import { beside, inOrder, when } from './facet.ts'
import { detachConsole, removeConsole } from './plan-console.ts'
import { ensureNetwork, removeNetwork } from './plan-network.ts'
import { removeUnit } from './plan-power.ts'
import { holdFrames, saveAnyway } from './plan-sleep.ts'
import { removeDisk } from './plan-storage.ts'
import { waitForMonitor } from './plan-waits.ts'
import { hasWholeGuest, removeUnusable } from './plan-wake.ts'
import type { VmRecord } from '../vm/record.ts'
import type { UnusableState } from '../world/saved-state.ts'
import type { World } from '../world/world.ts'
import type { Facet, Facts } from './facet.ts'
import type { Plan, Step } from './step.ts'

/** Plans for a guest that another host takes now. It is saved, and neither started nor woken. */
export const planHandover = (record: VmRecord, world: World, facts: Facts): Plan =>
  record.desired.migration?.mode === 'cold'
    ? inOrder(() => endForMove(world))
    : inOrder(
        () => removeUnit(record, world),
        // A host that was without power has no devices.
        () => ensureNetwork(world, facts),
        () => holdFrames(world, facts, 'the destination gets the frames that come from now on'),
        () => saveForMove(record, world, facts),
        () => detachConsole(world, 'the session continues at the destination'),
      )

/** Plans for a VM that another host has: only its record stays, until the controller deletes it. */
export const planLeft = (record: VmRecord, world: World, facts: Facts): Plan =>
  inOrder(
    () => endUnit(world, MOVED),
    () => removeConsole(world, MOVED),
    () =>
      beside({
        storage: [() => removeDisk(world, MOVED)],
        // A pool that fails must not keep the route: this host and its guests could not reach the guest that moved.
        network: [() => keepLatePackets(record, world, facts), () => removeNetwork(world, MOVED)],
      }),
  )

/** Keeps the device for a while: packets that are on their way here are held, and the destination reads them. */
function keepLatePackets({ departure }: VmRecord, { traffic }: World, { nowMs }: Facts): Facet {
  const leftAtMs = departure?.sinceMs ?? nowMs
  const leftMs = leftAtMs + limits.departedFramesMs - nowMs
  // The clock may have been set.
  const isOver = nowMs < leftAtMs || leftMs <= 0
  if (isOver || (traffic.known && !areHeld(traffic.value))) return []
  return {
    outcome: 'wait',
    for: 'late packets',
    recheckMs: leftMs,
  }
}

const MOVED = 'the VM has moved to another host'

/** Lists what is removed of a VM that stays at another host. Its record stays. */
export const removeAll = (world: World, because: string): readonly (() => Facet)[] => [
  () => endUnit(world, because),
  () => removeConsole(world, because),
  () => removeNetwork(world, because),
  () => removeDisk(world, because),
]

const COLD = 'the VM moves without its memory'

const endUnit = ({ unit }: World, because: string): Facet =>
  when('unit', unit, ({ kind }) =>
    kind === 'absent' || kind === 'foreign' ? [] : [{ kind: 'unit.ensure-stopped', because }],
  )

/** Ends a guest whose disk moves without its memory. */
function endForMove(world: World): Facet {
  const unit = endUnit(world, COLD)
  if ('outcome' in unit) return unit
  return when('storage', world.saved, ({ kind }) =>
    kind === 'absent' ? unit : [...unit, { kind: 'storage.remove-saved', because: COLD } satisfies Step],
  )
}

/** Saves the guest whatever its traffic, then ends its unit. */
function saveForMove(record: VmRecord, world: World, { silentMs }: Facts): Facet {
  const { unit, monitor, saved, traffic } = world
  if (!isUnitActive(world)) return when('unit', unit, () => [])
  return when('storage', saved, (state) => {
    if (state.kind === 'present') return [{ kind: 'unit.ensure-stopped', because: 'the guest is saved' }]
    if (state.kind === 'unusable') return saveAgain(record, monitor, { state, silentMs })
    return saveAnyway({ monitor, traffic }, silentMs, 'the guest moves to another host')
  })
}

/**
 * Makes room for another save of a guest whose saved state cannot be used. Its unit may have the only copy that can be.
 */
const saveAgain = (
  record: VmRecord,
  monitor: World['monitor'],
  { state, silentMs }: { readonly state: UnusableState; readonly silentMs: number },
): Facet =>
  when('monitor', monitor, (seen) => {
    if (seen.kind === 'silent') return waitForMonitor(silentMs)
    const remove = removeUnusable(state)
    if (hasWholeGuest(record, seen)) return [remove]
    return [{ kind: 'unit.ensure-stopped', because: remove.because }]
  })
