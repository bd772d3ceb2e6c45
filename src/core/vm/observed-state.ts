import { unreachable } from '../../lib/assert.ts'
import type { Plan, Step } from '../plan/step.ts'
import type { World } from '../plan/world.ts'
import type { ObservedState, VmRecord } from './record.ts'

/**
 * The state to show, from what was seen and what will be done. A blocked plan shows `failed`, unless it is an
 * inspection that failed: then nothing new is known, and the last state stands beside the error.
 */
export function observedState(record: VmRecord, world: World, plan: Plan): ObservedState {
  if (record.deleting) return 'deleting'
  switch (plan.outcome) {
    case 'settled':
      return record.desired.power
    case 'wait':
      return plan.for === 'the unit to stop' ? 'stopping' : 'starting'
    case 'blocked':
      return plan.step.endsWith('.inspect') ? record.observed.state : 'failed'
    case 'act':
      return whileActing(record, world, plan.steps)
    default:
      return unreachable(plan)
  }
}

function whileActing(record: VmRecord, world: World, steps: readonly Step[]): ObservedState {
  const kinds = new Set(steps.map((step) => step.kind))
  if (kinds.has('image.ensure-fetched') || isFirstDisk(world)) return 'pending'
  if (kinds.has('unit.ensure-started') || kinds.has('monitor.ensure-running')) return 'starting'
  if (kinds.has('unit.ensure-stopped')) return record.desired.power === 'stopped' ? 'stopping' : 'starting'
  if (kinds.has('monitor.ensure-paused')) return 'pausing'
  return atRest(record, world)
}

/** Steps that touch neither unit nor guest leave the state as it is seen. */
function atRest(record: VmRecord, { unit, monitor }: World): ObservedState {
  if (!unit.known || !monitor.known) return record.observed.state
  if (unit.value.kind !== 'active') return 'stopped'
  return monitor.value.kind === 'paused' ? 'paused' : 'running'
}

const isFirstDisk = ({ storage }: World): boolean => storage.known && storage.value.disk.kind === 'absent'
