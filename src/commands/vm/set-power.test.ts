import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage } from '../../../test/command-stage.ts'
import { setCompute, setExit } from './reshape.ts'
import { limits } from '../../config/limits.ts'
import { setPower } from './set-power.ts'
import { keepAwake, wakeVm } from './wake-vm.ts'
import type { TestContext } from 'node:test'
import type { Generation } from '../../core/ids.ts'
import type { ObservedState } from '../../core/vm/record.ts'

const idle = { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 60 }
const savedState = { savedAtMs: 900, sizeMib: 84, memoryMib: 256 }

/** A VM that sleeps when it is idle, and is asleep now. */
function sleeper(t: TestContext) {
  const stage = commandStage(t)
  stage.create({ compute: idle })
  stage.store.vms.recordProgress(stage.id, {
    observed: { state: 'sleeping', sinceMs: 900, savedState },
    observedGeneration: 1 as Generation,
    nowMs: 900,
  })
  stage.pokes.length = 0
  const wake = () => stage.store.vms.get(stage.id)?.wake
  return { ...stage, wake }
}

test('power running for a VM that sleeps raises a generation, and the same again nothing', (t) => {
  const { context, id, accepted, pokes, wake } = sleeper(t)
  const { record, changed } = accepted(setPower(context, id, 'running'))
  assert.equal(changed, true)
  assert.deepEqual(wake(), { reason: 'power', atMs: 1000 })
  assert.deepEqual(record.wake, wake())
  assert.deepEqual(record.generations, { desired: 2, observed: 1 })
  assert.equal(record.powerGeneration, 2)
  assert.deepEqual(pokes, ['web-1: power running'])
  const again = accepted(setPower(context, id, 'running'))
  assert.deepEqual([again.changed, again.record], [false, record])
})

for (const state of ['waking', 'failed'] as const satisfies readonly ObservedState[]) {
  test(`power running for a guest that is saved and ${state} raises a generation: it is not back yet`, (t) => {
    const { context, id, accepted, store } = sleeper(t)
    store.vms.recordProgress(id, { observed: { state, sinceMs: 900, savedState }, nowMs: 900 })
    assert.equal(accepted(setPower(context, id, 'running')).changed, true)
    assert.equal(accepted(setPower(context, id, 'running')).changed, false)
  })
}

test('a shell that wakes a VM raises no generation', (t) => {
  const { context, id, store } = sleeper(t)
  const before = store.vms.get(id)
  wakeVm(context, id, 'console')
  assert.deepEqual(store.vms.get(id), { ...before, wake: { reason: 'console', atMs: 1000 } })
})

test('of several requests, the first is the reason', (t) => {
  const { context, id, accepted, wake } = sleeper(t)
  wakeVm(context, id, 'console')
  context.now = () => 2000
  accepted(setPower(context, id, 'running'))
  assert.deepEqual(wake(), { reason: 'console', atMs: 1000 })
})

test('a VM that was seen running is asked too, since it may be falling asleep', (t) => {
  const { context, id, accepted, seenAs, wake } = sleeper(t)
  seenAs('running')
  assert.equal(accepted(setPower(context, id, 'running')).changed, false)
  assert.deepEqual(wake(), { reason: 'power', atMs: 1000 })
})

for (const state of [
  'stopped',
  'pending',
  'starting',
  'failed',
] as const satisfies readonly ObservedState[]) {
  test(`a VM that is ${state} is not asked`, (t) => {
    const { context, id, accepted, pokes, seenAs, wake } = sleeper(t)
    seenAs(state)
    accepted(setPower(context, id, 'running'))
    wakeVm(context, id, 'console')
    assert.deepEqual([wake(), pokes], [undefined, []])
  })
}

test('a VM that never sleeps, that must be stopped, or that is missing is not asked', (t) => {
  const { context, id, create, accepted, pokes, seenAs, store, wake } = sleeper(t)
  accepted(setPower(context, id, 'stopped'))
  wakeVm(context, id, 'console')
  assert.equal(wake(), undefined)
  pokes.length = 0
  const awake = 'web-2'
  accepted(create({ network: { ipv4Address: '192.0.2.11' } }, awake))
  const other = store.vms.list({}).find((record) => record.id === awake)
  assert.ok(other !== undefined)
  store.vms.recordProgress(other.id, { observed: { state: 'running', sinceMs: 1 }, nowMs: 1 })
  accepted(setPower(context, other.id, 'running'))
  assert.equal(store.vms.get(other.id)?.wake, undefined)
  seenAs('sleeping')
  wakeVm(context, 'web-9' as typeof id, 'console')
  assert.deepEqual(pokes, ['web-2: created'])
})

test('a power that is changed to running wakes as well', (t) => {
  const { context, id, accepted, wake } = sleeper(t)
  accepted(setPower(context, id, 'paused'))
  assert.equal(wake(), undefined, 'the plan knows that by itself')
  assert.equal(accepted(setPower(context, id, 'running')).changed, true)
  assert.deepEqual(wake(), { reason: 'power', atMs: 1000 })
})

test('an idle timeout of 0 is a change, and wakes the worker', (t) => {
  const { context, id, accepted, pokes } = sleeper(t)
  const { record, changed } = accepted(setCompute(context, id, { ...idle, sleepAfterIdleSeconds: 0 }))
  assert.deepEqual([changed, record.generations.desired], [true, 2])
  assert.deepEqual(pokes, ['web-1: compute'])
})

test('asleep is not stopped: CPU and memory stay, and the refusal says what a stop would cost', (t) => {
  const { context, id, refusal } = sleeper(t)
  for (const compute of [
    { ...idle, memoryMib: 512 },
    { ...idle, cpuMillicores: 2000 },
    { ...idle, memoryMib: 128, sleepAfterIdleSeconds: 0 },
  ]) {
    const { code, text } = refusal(setCompute(context, id, compute))
    assert.equal(code, 'vm_not_stopped')
    assert.match(
      text,
      /and it is sleeping: set its power to stopped, which throws its saved state away, and wait/,
    )
  }
})

test('a refusal says that a VM which shows as stopped is about to start or to be stopped, and that another still runs', (t) => {
  const { context, id, store, create, accepted, refusal } = commandStage(t)
  const compute = { ...idle, memoryMib: 512 }
  const text = (): string => refusal(setCompute(context, id, compute)).text
  const seen = (state: ObservedState): unknown =>
    store.vms.recordProgress(id, { observed: { state, sinceMs: 1000 }, nowMs: 1000 })
  accepted(create())
  seen('stopped')
  assert.match(text(), /, and it is about to start: set its power to stopped, and wait until it is$/)
  accepted(setPower(context, id, 'stopped'))
  assert.match(text(), /, and its stop is not done yet: wait until its stop is done;/)
  seen('running')
  assert.match(text(), /, and it is still running: wait until its stop is done;/)
})

test('a guest that ended for good is not stopped while its power is running, and the refusal says so', (t) => {
  const { context, id, store, create, accepted, refusal } = commandStage(t)
  const { powerGeneration: endedAtPower } = accepted(create()).record
  store.vms.recordProgress(id, {
    observed: { state: 'stopped', sinceMs: 1000, endedAtPower },
    nowMs: 1000,
  })
  const { code, text } = refusal(setCompute(context, id, { ...idle, memoryMib: 512 }))
  assert.equal(code, 'vm_not_stopped')
  assert.equal(
    text,
    'CPU and memory of web-1 can change only while it is stopped; its guest has ended, but its power is running: set its power to stopped, and wait until it is',
  )
})

test('a rehearsal of a wake requests no wake', (t) => {
  const { context, id, accepted, pokes, store, wake } = sleeper(t)
  const result = store.rehearse(() => setPower({ ...context, poke: () => {} }, id, 'running'))
  assert.deepEqual(
    accepted(result).record.wake,
    { reason: 'power', atMs: 1000 },
    'its plan is that of the wake',
  )
  assert.deepEqual([wake(), pokes], [undefined, []])
})

test('a request to stay awake wakes a VM that sleeps, and raises a revision but no generation', (t) => {
  const { context, id, accepted, pokes, store, wake } = sleeper(t)
  const before = store.vms.get(id)
  const { record, changed, operationId } = accepted(keepAwake(context, id, 61_000))
  assert.deepEqual([changed, record.keepAwakeUntilMs, wake()?.reason], [true, 61_000, 'keep_awake'])
  assert.notEqual(operationId, before?.operationId)
  assert.equal(record.operationId, operationId, 'what follows from it has its operation')
  assert.deepEqual(record.generations, before?.generations)
  assert.ok(record.revision > (before?.revision ?? 0))
  assert.deepEqual(pokes, ['web-1: keep awake'])
  assert.equal(accepted(keepAwake(context, id, 61_000)).changed, false)
  assert.deepEqual(pokes.length, 1)
})

test('a request to stay awake leaves a change that is not reached its operation', (t) => {
  const { context, id, accepted, store } = sleeper(t)
  const change = accepted(setPower(context, id, 'running')).record
  const { record, operationId } = accepted(keepAwake(context, id, 61_000))
  assert.notEqual(operationId, change.operationId)
  assert.deepEqual([record.operationId, record.keepAwakeUntilMs], [change.operationId, 61_000])
  const observed = { state: 'running', sinceMs: 1000 } as const
  store.vms.recordProgress(id, { observed, observedGeneration: change.generations.desired, nowMs: 1000 })
  const [reached] = store.events.list({ after: 0, kind: 'vm_reached', limit: 9 }).slice(-1)
  const { operationId: reachedBy } = { operationId: undefined, ...reached?.body }
  assert.equal(reachedBy, change.operationId)
})

test('the newest request to stay awake replaces the earlier one, and one without a time ends it', (t) => {
  const { context, id, accepted, create, store, wake } = sleeper(t)
  accepted(keepAwake(context, id, 61_000))
  assert.equal(accepted(keepAwake(context, id, 31_000)).record.keepAwakeUntilMs, 31_000)
  assert.equal(accepted(keepAwake(context, id, undefined)).record.keepAwakeUntilMs, undefined)
  accepted(create({ compute: idle, power: 'stopped', network: { ipv4Address: '192.0.2.12' } }, 'web-2'))
  const other = 'web-2' as typeof id
  assert.equal(accepted(keepAwake(context, other, 61_000)).record.wake, undefined, 'it starts no stopped VM')
  assert.equal(store.vms.get(other)?.keepAwakeUntilMs, 61_000)
  assert.equal(wake()?.reason, 'keep_awake')
})

test('a time to stay awake is after now, and at most some days ahead', (t) => {
  const { context, id, accepted, refusal } = sleeper(t)
  for (const untilMs of [0, 1000, 1001 + limits.keepAwakeMsMax])
    assert.equal(refusal(keepAwake(context, id, untilMs)).code, 'invalid_request')
  accepted(keepAwake(context, id, 1000 + limits.keepAwakeMsMax))
  accepted(keepAwake(context, id, 1001))
})

test('a stop that is asked for again when the guest has ended changes nothing', (t) => {
  const { context, id, create, accepted, seenAs } = commandStage(t)
  create()
  accepted(setPower(context, id, 'stopped'))
  seenAs('stopped')
  for (const terms of [{}, { graceSeconds: 60 }])
    assert.equal(accepted(setPower(context, id, 'stopped', terms)).changed, false)
})

test('another change leaves a guest that ends the time that it was given', (t) => {
  const { context, id, create, accepted } = commandStage(t)
  create()
  const { stops } = accepted(setPower(context, id, 'stopped', { graceSeconds: 60 })).record
  assert.equal(stops.grace?.untilMs, 61_000)
  const changed = accepted(setExit(context, id, { restartPolicy: 'never' }))
  assert.deepEqual([changed.changed, changed.record.stops], [true, stops])
})
