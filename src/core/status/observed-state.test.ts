import assert from 'node:assert/strict'
import { test } from 'node:test'
import { markOfTests, recordOf, worldOf } from '../../../test/record.ts'
import { WAIT_FOR_MAINTENANCE } from '../plan/plan-waits.ts'
import { observedState } from './observed-state.ts'
import type { Generation } from '../ids.ts'
import type { Arrival } from '../migration/arrival.ts'
import type { ArrivalId, Departure } from '../migration/departure.ts'
import type { MigrationId, NodeName } from '../migration/offer.ts'
import type { Plan } from '../plan/step.ts'
import type { VmRecord } from '../vm/record.ts'
import type { MonitorState, World } from '../world/world.ts'

const disk = { sizeMib: 64 }
const repairing: Plan = {
  outcome: 'act',
  steps: [{ kind: 'network.ensure-tap', because: 'the link is down' }],
}

const shown = (monitor: MonitorState): string => {
  const world = worldOf({
    unit: { known: true, value: { kind: 'active', mainPid: 1, mark: markOfTests, startedAtMs: 0 } },
    monitor: { known: true, value: monitor },
    storage: {
      known: true,
      value: {
        disk: { kind: 'present', ...disk },
        seed: { kind: 'absent' },
        missingImages: [],
        unfitImages: [],
      },
    },
  })
  return observedState(recordOf(), world, repairing)
}

test('while its surroundings are repaired a guest is shown as it is seen', () => {
  assert.equal(shown({ kind: 'running', disk }), 'running')
  assert.equal(shown({ kind: 'paused', disk }), 'paused')
})

const blockedAtNetwork: Plan = {
  outcome: 'blocked',
  step: 'network.inspect',
  code: 'firewall_failed',
  retry: 'backoff',
  because: 'no look',
}

const stateAfter = (step: string | undefined, power: 'running' | 'stopped' = 'running'): string => {
  const record = recordOf()
  const fault = {
    code: 'firewall_failed',
    generation: recordOf().generations.desired,
    sinceMs: 0,
    attempt: 1,
    nextAttemptAtMs: 0,
  } as const
  const observed = step === undefined ? {} : { fault: { ...fault, step, message: 'no look' } }
  const active = power === 'running'
  return observedState(
    {
      ...record,
      desired: { ...record.desired, power },
      observed: { ...record.observed, ...observed, state: power, disk },
    },
    worldOf({
      unit: {
        known: true,
        value: active
          ? { kind: 'active', mainPid: 1, mark: markOfTests, startedAtMs: 0 }
          : { kind: 'absent' },
      },
      monitor: { known: true, value: active ? { kind: 'running', disk } : { kind: 'silent' } },
    }),
    blockedAtNetwork,
  )
}

test('a running guest is shown as failed when its network could not be inspected twice in a row', () => {
  assert.equal(stateAfter(undefined), 'running', 'once')
  assert.equal(stateAfter('network.inspect'), 'failed', 'twice')
  assert.equal(stateAfter('storage.inspect'), 'running', 'something else failed before')
})

test('a VM that should be stopped and is, stays stopped when its network cannot be inspected', () => {
  assert.equal(stateAfter('network.inspect', 'stopped'), 'stopped')
})

for (const [what, image, state] of [
  ['a rebuild', { rebuild: 1 }, 'stopped'],
  ['another kernel', { bootRevision: 1 }, 'stopped'],
  ['its creation', {}, 'pending'],
] as const) {
  test(`while an image is fetched for ${what} a stopped VM is ${state}`, () => {
    const { desired } = recordOf()
    const { rootfsSha256: sha256 } = desired.image
    const record = recordOf({
      desired: { ...desired, power: 'stopped', image: { ...desired.image, ...image } },
      observed: { state: 'stopped', sinceMs: 1 },
    })
    const fetching = { kind: 'image.ensure-fetched', role: 'rootfs', sha256, because: 'not there' } as const
    const unit = { known: true, value: { kind: 'absent' } } as const
    assert.equal(observedState(record, worldOf({ unit }), { outcome: 'act', steps: [fetching] }), state)
  })
}

const { rootfsSha256 } = recordOf().desired.image
const fetching = {
  kind: 'image.ensure-fetched',
  role: 'rootfs',
  sha256: rootfsSha256,
  because: 'not there',
} as const
const booting = { kind: 'unit.ensure-started', paused: false, restore: false, because: 'not active' } as const

for (const [what, step, generation, retried, state] of [
  ['an image that could not be fetched is fetched again', 'image.ensure-fetched', 1, fetching, 'failed'],
  ['a start that failed is tried again', 'unit.ensure-started', 1, booting, 'starting'],
  ['the step before it succeeded', 'image.ensure-fetched', 1, booting, 'starting'],
  ['an image is fetched after another failure', 'network.ensure-tap', 1, fetching, 'pending'],
  ['an image is fetched for another desired state', 'image.ensure-fetched', 2, fetching, 'pending'],
] as const)
  test(`a failed VM is ${state} while ${what}`, () => {
    const now = recordOf({ generations: { desired: generation as Generation, observed: 0 as Generation } })
    const fault = {
      code: 'image_unavailable',
      step,
      message: '403',
      generation: 1 as Generation,
      sinceMs: 0,
      attempt: 1,
      nextAttemptAtMs: 0,
    } as const
    const record = { ...now, observed: { state: 'failed', sinceMs: 1, fault } } as const
    const unit = { known: true, value: { kind: 'absent' } } as const
    assert.equal(observedState(record, worldOf({ unit }), { outcome: 'act', steps: [retried] }), state)
  })

for (const [what, power, monitor, state] of [
  ['a guest that runs', 'running', 'running', 'running'],
  ['a paused guest', 'paused', 'paused', 'paused'],
  ['a guest that is to be paused and runs still', 'paused', 'running', 'running'],
  ['a guest whose save was interrupted', 'running', 'paused', 'running'],
] as const)
  test(`while it is saved, ${what} is shown as ${state}`, () => {
    const { desired } = recordOf()
    const record = recordOf({ desired: { ...desired, power } })
    const world = worldOf({
      unit: { known: true, value: { kind: 'active', mainPid: 1, mark: markOfTests, startedAtMs: 0 } },
      monitor: { known: true, value: { kind: monitor, disk } },
    })
    const saving = { kind: 'monitor.ensure-saved', packets: 0, anyway: true, because: 'drained' } as const
    assert.equal(observedState(record, world, { outcome: 'act', steps: [saving] }), state)
    const saved = {
      kind: 'present',
      savedAtMs: 1,
      sizeMib: 84,
      memoryMib: 256,
      vcpus: 1,
      form: 'mapped',
    } as const
    const inUnit = { ...world, saved: { known: true, value: saved } } as const
    const ending = { kind: 'unit.ensure-stopped', because: 'the guest is saved' } as const
    assert.equal(observedState(record, inUnit, { outcome: 'act', steps: [ending] }), state)
  })

test('a guest that is stopped because its disk failed is not shown as running', () => {
  assert.equal(shown({ kind: 'stalled', status: 'io-error', disk }), 'paused')
})

test('a monitor that does not answer leaves the state of its guest, and a unit that was just started is starting', () => {
  const waiting: Plan = { outcome: 'wait', for: 'the monitor to answer', recheckMs: 1, deadlineMs: 2 }
  const stateOf = (startedAtMs: number): string => {
    const record = recordOf({ observed: { state: 'paused', sinceMs: 1, startedAtMs: 1500 } })
    const unit = { kind: 'active', mainPid: 1, mark: markOfTests, startedAtMs } as const
    return observedState(record, worldOf({ unit: { known: true, value: unit } }), waiting)
  }
  assert.equal(stateOf(1500), 'paused')
  assert.equal(stateOf(1501), 'starting')
})

const ARRIVAL: Arrival = {
  id: 'a-1' as ArrivalId,
  migrationId: 'move-1' as MigrationId,
  source: 'https://192.0.2.1:9001',
  stage: 'pulled',
  wakes: true,
  round: 1,
}

test('a VM that a drained host holds is shown as it rests, and one that is not released to this host as still to come', () => {
  const shownOf = (record: VmRecord) => observedState(record, worldOf(), WAIT_FOR_MAINTENANCE)
  assert.equal(shownOf({ ...recordOf(), arrival: ARRIVAL }), 'pending')
  assert.equal(shownOf({ ...recordOf(), arrival: { ...ARRIVAL, stage: 'released' } }), 'stopped')
})

const GONE = { unit: { known: true, value: { kind: 'absent' } } } as const
const ASLEEP: World = worldOf({
  ...GONE,
  saved: {
    known: true,
    value: { kind: 'present', savedAtMs: 1, sizeMib: 84, memoryMib: 256, vcpus: 1, form: 'mapped' },
  },
})
const restoring: Plan = {
  outcome: 'act',
  steps: [{ kind: 'unit.ensure-started', paused: true, restore: true, because: 'it is to continue here' }],
}
const silent: Plan = { outcome: 'wait', for: 'the monitor to answer', recheckMs: 1 }

for (const [what, world, planned] of [
  ['its network is prepared', worldOf(GONE), repairing],
  ['its memory is here', ASLEEP, repairing],
  ['its guest is loaded', ASLEEP, restoring],
  ['the monitor that loads it is awaited', worldOf(), silent],
] as const)
  test(`a VM that is not released to this host is still to come while ${what}`, () => {
    assert.equal(observedState({ ...recordOf(), arrival: ARRIVAL }, world, planned), 'pending')
  })

const departed = (stage: Departure['stage'], mode: Departure['mode']): VmRecord =>
  recordOf({
    departure: { id: 'move-1' as MigrationId, node: 'node-2' as NodeName, mode, stage, sinceMs: 1 },
  })
const ending: Plan = {
  outcome: 'act',
  steps: [{ kind: 'unit.ensure-stopped', because: 'the VM moves without its memory' }],
}

test('while what is left of it is removed, a VM that another host has is shown as migrated', () => {
  assert.equal(observedState(departed('released', 'live'), ASLEEP, repairing), 'migrated')
  assert.equal(observedState(departed('released', 'live'), worldOf(GONE), repairing), 'migrated')
  assert.equal(observedState(departed('released', 'live'), worldOf(), ending), 'migrated')
})

test('a guest that is ended for its move is shown as stopping', () => {
  assert.equal(observedState(departed('handing_over', 'cold'), worldOf(), ending), 'stopping')
})
