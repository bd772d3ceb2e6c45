import { unreachable } from '../../lib/assert.ts'
import { given } from '../../lib/given.ts'
import { isGone, isInPool } from '../world/world.ts'
import { inOrder, when } from './facet.ts'
import { removeAll } from './plan-leave.ts'
import { ensureNetwork } from './plan-network.ts'
import { removeUnit } from './plan-power.ts'
import { ensureHeld } from './plan-sleep.ts'
import { waitForMonitor, whenUnit } from './plan-waits.ts'
import { restorePaused } from './plan-wake.ts'
import { blockedBy, SETTLED, waiting } from './step.ts'
import type { Arrival } from '../migration/arrival.ts'
import type { VmRecord, WaitReason } from '../vm/record.ts'
import type { SavedGuest, SavedState } from '../world/saved-state.ts'
import type { World } from '../world/world.ts'
import type { Facet, Facts } from './facet.ts'
import type { Blocked, Plan, Step, Waiting } from './step.ts'

type Now = { readonly world: World; readonly facts: Facts }

/** Plans for a VM that comes from another host and is not released to this one: its guest may not run here. */
export function planArrival(record: VmRecord, arrival: Arrival, now: Now): Plan {
  const { world, facts } = now
  switch (arrival.stage) {
    case 'pulling': {
      // Not before: this host's own packets for the guest must go to its source for as long as it lives there.
      const prepared = arrival.expectsGuest === true ? inOrder(...holdPackets(record, now)) : SETTLED
      if (prepared.outcome !== 'settled') return prepared
      return waitFor('the source', arrival)
    }
    case 'pulled': {
      const prepared = inOrder(
        () => removeUnit(record, world),
        () => (facts.drain === undefined ? [] : unload(world)),
        ...(isInPool(world) ? holdPackets(record, now) : [() => ensureNetwork(world, facts)]),
        () => (arrival.wakes ? loadGuest(record, world, facts) : []),
      )
      if (prepared.outcome !== 'settled') return prepared
      // A VM that waits for the release has its guest loaded and asks the source for it. A drained host loads none.
      return waitFor(facts.drain === undefined ? 'the release' : 'the end of maintenance', arrival)
    }
    case 'refused': {
      const removed = inOrder(...removeAll(world, 'the VM stays at the host that it was to come from'))
      return removed.outcome === 'settled' ? notReleased(record, arrival) : removed
    }
    case 'released':
      return SETTLED
    default:
      return unreachable(arrival.stage)
  }
}

/** Holds the packets for a guest that comes. On a host that knows no traffic, the guest comes all the same. */
const holdPackets = (record: VmRecord, { world, facts }: Now): readonly (() => Facet)[] => [
  () => ensureNetwork(world, facts),
  () => (world.traffic.known ? ensureHeld(record, world, facts) : []),
]

/** Waits for the source, and shows what keeps the VM from coming. */
function waitFor(what: WaitReason, { trouble }: Arrival): Waiting | Blocked {
  if (trouble === undefined) return waiting(what)
  const { attempt, nextAttemptAtMs } = trouble
  const attemptsBefore = attempt === undefined ? undefined : attempt - 1
  return { ...blockedBy('arrival.pull', trouble, what), ...given({ attemptsBefore, nextAttemptAtMs }) }
}

function notReleased({ id }: VmRecord, { migrationId, because }: Arrival): Blocked {
  const end =
    because === 'drained'
      ? `this host was drained and gave up migration ${migrationId}`
      : `migration ${migrationId} has ended at its source (${because})`
  return {
    outcome: 'blocked',
    step: 'arrival.pull',
    code: 'migration_refused',
    retry: 'on-change',
    because: `${id} does not come here: ${end}; delete ${id} here`,
  }
}

/**
 * Ends the unit of a guest on a drained host if the pool has all of the guest: the source may have released it already.
 */
const unload = ({ unit, saved }: World): Facet =>
  when('unit', unit, (seen) =>
    !isGone(seen) && saved.known && saved.value.kind === 'present' ? [UNLOAD] : [],
  )

/** Loads the guest into a monitor whose vCPUs are stopped. A drained host loads none. */
function loadGuest(record: VmRecord, world: World, facts: Facts): Facet {
  return whenUnit(world, {
    gone: () => {
      if (facts.drain !== undefined) return []
      return when('storage', world.saved, (saved) =>
        saved.kind === 'present'
          ? restorePaused(record, world, { facts, because: LOADED })
          : notLoadable(saved),
      )
    },
    active: () =>
      when('monitor', world.monitor, ({ kind }) => {
        switch (kind) {
          case 'restoring':
            return [{ kind: 'monitor.ensure-restored', because: LOADED }]
          case 'paused':
            return []
          case 'silent':
            return waitForMonitor(facts.silentMs)
          case 'running':
          case 'stalled':
          case 'broken':
            return [END]
          default:
            return unreachable(kind)
        }
      }),
  })
}

const LOADED = 'the guest is to continue here'

const notLoadable = (saved: Exclude<SavedState, SavedGuest>): Blocked => ({
  outcome: 'blocked',
  step: 'monitor.ensure-restored',
  ...(saved.kind === 'unusable'
    ? { code: saved.code, because: saved.because }
    : { code: 'saved_state_corrupt', because: 'the memory that came from its source is gone' }),
  retry: 'backoff',
})

const UNLOAD: Step = {
  kind: 'unit.ensure-stopped',
  because: 'the host is drained, and the guest that is not released to it is saved',
}

const END: Step = {
  kind: 'unit.ensure-stopped',
  because: 'the guest is not released to this host, and its monitor does not hold it still',
}
