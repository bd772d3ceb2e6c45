import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { IDLE_MS, SLEEPER, sleepStage } from '../../test/sleep-stage.ts'
import { limits } from '../config/limits.ts'
import { setCompute } from '../commands/vm/reshape.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { keepAwake } from '../commands/vm/wake-vm.ts'
import { HostFault } from '../core/errors.ts'

test('a VM sleeps when it was idle, and wakes with its memory and every packet', async (t) => {
  const { host, vm, id, later, idle, shown, receive, given, goesOn, fallAsleep } = await sleepStage(t)
  await later(IDLE_MS - 1)
  assert.equal(shown(), 'running')
  receive('keeps it awake')
  await later(1)
  assert.equal(shown(), 'running')
  await fallAsleep()
  assert.equal(host.fakeUnits.stateOf(id).kind, 'absent')
  assert.deepEqual(vm().observed.savedState?.memoryMib, 256)
  assert.equal(vm().observed.startedAtMs, undefined)
  await later(3_600_000)
  receive('first')
  receive('second')
  await idle()
  assert.equal(shown(), 'running')
  assert.ok(goesOn())
  assert.deepEqual(given(), ['keeps it awake', 'first', 'second'])
  const { lastWake, savedState } = vm().observed
  assert.deepEqual(lastWake, {
    reason: 'traffic',
    atMs: host.clock.now(),
    durationMs: 0,
    heldPackets: 2,
    droppedPackets: 0,
  })
  assert.equal(savedState, undefined)
  assert.equal(vm().wake, undefined)
  assert.deepEqual(host.savedFiles.paths(), [])
})

test('the preparation of a start begins with the first packet to a sleeping VM, and with no later one', async (t) => {
  const { host, idle, receive, fallAsleep } = await sleepStage(t)
  receive('to a guest that runs')
  await fallAsleep()
  assert.equal(host.fakeUnits.expectedStarts, 0)
  receive('wakes it')
  assert.equal(host.fakeUnits.expectedStarts, 1)
  await idle()
  receive('to a guest that runs again')
  assert.equal(host.fakeUnits.expectedStarts, 1)
})

test('a request for power wakes it, and its generation is reached when the guest is back', async (t) => {
  const { context, host, id, vm, idle, turns, shown, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  const release = host.monitor.holdNext('ensureRestored')
  setPower(context, id, 'running')
  await turns()
  assert.deepEqual([shown(), vm().generations], ['waking', { desired: 2, observed: 1 }])
  release()
  await idle()
  assert.equal(shown(), 'running')
  assert.deepEqual(vm().generations, { desired: 2, observed: 2 })
  assert.equal(vm().observed.lastWake?.reason, 'power')
})

test('a timeout of 0 wakes it', async (t) => {
  const { context, id, vm, idle, shown, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  setCompute(context, id, { ...SLEEPER, sleepAfterIdleSeconds: 0 })
  await idle()
  assert.equal(shown(), 'running')
  assert.equal(vm().observed.lastWake?.reason, 'sleep_disabled')
})

test('a VM that is kept awake does not sleep before that time, and a sleeping one wakes', async (t) => {
  const { clock, context, id, vm, idle, later, shown, goesOn } = await sleepStage(t)
  keepAwake(context, id, clock.now() + 3 * IDLE_MS)
  await later(3 * IDLE_MS - 1)
  assert.equal(shown(), 'running')
  await later(limits.sleepRecheckMs)
  assert.equal(shown(), 'sleeping')
  keepAwake(context, id, clock.now() + 2 * IDLE_MS)
  await idle()
  assert.equal(shown(), 'running')
  assert.deepEqual([vm().observed.lastWake?.reason, vm().generations.desired], ['keep_awake', 1])
  assert.ok(goesOn())
  await later(IDLE_MS)
  assert.equal(shown(), 'running')
  keepAwake(context, id, undefined)
  await idle()
  assert.equal(shown(), 'sleeping', 'it is idle for long enough already')
  assert.equal(vm().wake, undefined)
})

test('a stop removes the saved state, and the next start is a boot', async (t) => {
  const { host, context, id, idle, shown, receive, given, goesOn, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  setPower(context, id, 'stopped')
  await idle()
  assert.equal(shown(), 'stopped')
  assert.deepEqual(host.savedFiles.paths(), [])
  receive('to no guest')
  setPower(context, id, 'running')
  await idle()
  assert.equal(shown(), 'running')
  assert.equal(goesOn(), false, 'it was booted')
  assert.deepEqual(given(), [])
})

test('its clock says when traffic last came, and its revision does not follow each packet', async (t) => {
  const { clock, vm, later, noticed, receive, fallAsleep } = await sleepStage(t)
  receive('one')
  await noticed()
  const { revision } = vm()
  assert.equal(vm().observed.lastTrafficAtMs, clock.now())
  await later(1000)
  receive('another')
  await noticed()
  assert.equal(vm().revision, revision)
  const lastMs = clock.now()
  await fallAsleep()
  assert.equal(vm().observed.lastTrafficAtMs, lastMs)
})

test('short sleeps in a row lengthen the next wait, until one lasts', async (t) => {
  const { vm, idle, later, receive, fallAsleep, shown } = await sleepStage(t)
  for (let short = 1; short <= limits.shortSleepsFree + 1; short += 1) {
    await fallAsleep()
    receive('soon')
    await idle()
    assert.equal(vm().observed.shortSleeps, short)
  }
  await later(IDLE_MS)
  assert.equal(shown(), 'running', 'twice the timeout now')
  await later(IDLE_MS)
  assert.equal(shown(), 'sleeping')
  await later(limits.shortSleepMs)
  receive('late')
  await idle()
  assert.deepEqual([shown(), vm().observed.shortSleeps], ['running', undefined])
})

test('a request for a guest that is there wakes no later sleep', async (t) => {
  const { context, id, vm, idle, fallAsleep } = await sleepStage(t)
  setPower(context, id, 'running')
  assert.notEqual(vm().wake, undefined)
  await idle()
  assert.deepEqual([vm().wake, vm().observed.lastWake], [undefined, undefined])
  await fallAsleep()
})

test('under a monitor that cannot save, a VM never sleeps, and says so', async (t) => {
  const { host, create, idle, later, vm, shown } = await reconcileStage(t)
  Object.assign(host.monitor, { capabilities: { ...host.monitor.capabilities, save: false } })
  create({ compute: SLEEPER })
  await idle()
  await later(SLEEPER.sleepAfterIdleSeconds * 2000)
  assert.equal(shown(), 'running')
  assert.deepEqual(
    vm().observed.partialFaults?.map(({ code }) => code),
    ['sleep_unsupported'],
  )
})

test('many reasons make one wake, which shows the first', async (t) => {
  const { host, context, id, vm, turns, idle, receive, given, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  const release = host.monitor.holdNext('ensureRestored')
  receive('first')
  await turns()
  assert.equal(vm().observed.state, 'waking')
  setPower(context, id, 'running')
  setCompute(context, id, { ...SLEEPER, sleepAfterIdleSeconds: 0 })
  receive('second')
  release()
  await idle()
  assert.equal(vm().observed.lastWake?.reason, 'traffic')
  assert.deepEqual(given(), ['first', 'second'])
  assert.deepEqual([host.monitor.relived, host.traffic.lost], [[], []])
})

test('memory that is damaged is refused and kept, and a stop is the way out', async (t) => {
  const { host, context, id, vm, idle, later, shown, receive, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  const { published } = host.savedStates.paths(id)
  host.savedFiles.damage(published)
  receive('first')
  await idle()
  assert.equal(shown(), 'failed saved_state_corrupt')
  assert.equal(host.fakeUnits.stateOf(id).kind, 'absent')
  await later(limits.retryBackoffMsMax)
  assert.equal(shown(), 'failed saved_state_corrupt')
  assert.ok(vm().observed.savedState !== undefined && host.savedFiles.at(published) !== undefined)
  setPower(context, id, 'stopped')
  await idle()
  assert.deepEqual([shown(), host.savedFiles.paths(), vm().wake], ['stopped', [], undefined])
})

test('a restore that fails is tried again, and never becomes a boot', async (t) => {
  const { host, id, idle, later, shown, receive, given, goesOn, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  host.monitor.failNext('ensureRestored', new HostFault('restore_failed', 'on purpose'))
  receive('first')
  await idle()
  assert.equal(shown(), 'failed restore_failed')
  assert.equal(host.fakeUnits.stateOf(id).kind, 'absent')
  await later(limits.retryBackoffMsMin)
  assert.equal(shown(), 'running')
  assert.ok(goesOn())
  assert.deepEqual(given(), ['first'])
})

test('a start after a restore that failed and a stop is a boot, and no exit', async (t) => {
  const { host, context, id, vm, idle, shown, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  host.monitor.failNext('ensureRestored', new HostFault('restore_failed', 'on purpose'))
  setPower(context, id, 'running')
  await idle()
  assert.equal(shown(), 'failed restore_failed')
  setPower(context, id, 'stopped')
  await idle()
  assert.deepEqual([shown(), vm().launch], ['stopped', undefined])
  setPower(context, id, 'running')
  await idle()
  assert.deepEqual([shown(), vm().exitStreak], ['running', 0])
})

test('memory that is damaged ends a restore that would take long', async (t) => {
  const { host, id, idle, shown, receive, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  host.savedFiles.damage(host.savedStates.paths(id).published)
  host.monitor.holdNext('ensureRestored')
  receive('first')
  await idle()
  assert.deepEqual([shown(), host.fakeUnits.stateOf(id).kind], ['failed saved_state_corrupt', 'absent'])
})

test('a restore that fails waits for no checksum', async (t) => {
  const { host, id, idle, shown, receive, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  host.savedStates.holdNext('verify')
  host.monitor.failNext('ensureRestored', new HostFault('restore_failed', 'on purpose'))
  receive('first')
  await idle()
  assert.deepEqual([shown(), host.fakeUnits.stateOf(id).kind], ['failed restore_failed', 'absent'])
})

for (const [when, byMs] of [
  ['back', -3_600_000],
  ['forward', 3_600_000],
] as const) {
  test(`a clock that was set ${when} lets no guest go on from unchecked memory`, async (t) => {
    const { host, id, turns, idle, stop, start, shown, receive, goesOn, fallAsleep, clock } =
      await sleepStage(t)
    await fallAsleep()
    clock.set(byMs)
    const release = host.monitor.holdNext('ensureRestored')
    receive('first')
    await turns()
    assert.equal(host.fakeUnits.stateOf(id).kind, 'active')
    await stop()
    release()
    clock.set(byMs)
    host.savedFiles.damage(host.savedStates.paths(id).published)
    await start()
    await idle()
    assert.equal(shown(), 'failed saved_state_corrupt')
    assert.deepEqual([host.fakeUnits.stateOf(id).kind, goesOn()], ['absent', false])
    assert.notEqual(host.savedStates.metadataOf(id), undefined)
  })
}

test('a change in the middle of a wake has its memory read once', async (t) => {
  const { host, context, id, vm, turns, idle, shown, receive, fallAsleep, goesOn } = await sleepStage(t)
  await fallAsleep()
  let readings = 0
  const verify = host.savedStates.verify.bind(host.savedStates)
  host.savedStates.verify = (...args) => {
    readings += 1
    return verify(...args)
  }
  const release = host.savedStates.holdNext('verify')
  receive('first')
  await turns()
  setCompute(context, id, { ...SLEEPER, sleepAfterIdleSeconds: 0 })
  release()
  await idle()
  assert.deepEqual([readings, shown(), vm().generations], [1, 'running', { desired: 2, observed: 2 }])
  assert.ok(goesOn())
})

test('a stop in the middle of a wake lets no guest go on', async (t) => {
  const { host, context, id, turns, idle, shown, receive, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  const release = host.savedStates.holdNext('remove')
  receive('first')
  await turns()
  assert.equal(host.monitor.stateOf(id).kind, 'paused')
  let runs = 0
  const ensureRunning = host.monitor.ensureRunning.bind(host.monitor)
  host.monitor.ensureRunning = (...args) => {
    runs += 1
    return ensureRunning(...args)
  }
  setPower(context, id, 'stopped')
  release()
  await idle()
  assert.deepEqual([shown(), runs, host.savedFiles.paths()], ['stopped', 0, []])
})

test('a request for a guest during a look at it is shown as the reason', async (t) => {
  const { host, context, id, vm, turns, idle, receive, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  const release = host.savedStates.holdNext('inspect')
  receive('first')
  await turns()
  setPower(context, id, 'running')
  release()
  await idle()
  assert.equal(vm().observed.lastWake?.reason, 'power')
})

test('a guest that was woken stays up for a while, however short its timeout', async (t) => {
  const { context, id, later, idle, shown, receive } = await sleepStage(t)
  setCompute(context, id, { ...SLEEPER, sleepAfterIdleSeconds: 1 })
  await idle()
  await later(1000)
  assert.equal(shown(), 'sleeping', 'it was never woken')
  receive('first')
  await idle()
  await later(limits.awakeMsMin - 1)
  assert.equal(shown(), 'running')
  await later(1)
  assert.equal(shown(), 'sleeping')
})

test('a pool out of sight changes nothing about a VM that sleeps, but for the fault', async (t) => {
  const { host, vm, noticed, later, shown, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  const { savedState } = vm().observed
  host.storage.setInSight(false)
  await noticed()
  assert.equal(shown(), 'sleeping storage_inspection_failed')
  assert.deepEqual(vm().observed.savedState, savedState)
  assert.equal(vm().observed.partialFaults?.length, 1, 'one outage is one fault')
  host.storage.setInSight(true)
  await later(limits.retryBackoffMsMax)
  assert.equal(shown(), 'sleeping')
})

test('without the program that saved it a VM sleeps on, and can be stopped', async (t) => {
  const { host, context, id, idle, noticed, shown, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  host.monitor.failNext('installed', new HostFault('monitor_missing', 'on purpose'))
  await noticed()
  assert.equal(shown(), 'failed monitor_missing')
  host.monitor.failNext('installed', new HostFault('monitor_missing', 'on purpose'))
  setPower(context, id, 'stopped')
  await idle()
  assert.deepEqual([shown(), host.savedFiles.paths()], ['stopped', []])
})

test('a sleeping VM is found asleep by the next daemon, and one that was asked for is woken by it', async (t) => {
  const { store, id, vm, clock, stop, start, idle, shown, goesOn, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  await stop()
  await start()
  await idle()
  assert.equal(shown(), 'sleeping')
  await stop()
  store.vms.requestWake(id, { reason: 'console', atMs: clock.now() })
  await start()
  await idle()
  assert.deepEqual([shown(), vm().observed.lastWake?.reason], ['running', 'console'])
  assert.ok(goesOn())
})

test('a unit that ends although its stop had no answer leaves no launch of a VM that sleeps', async (t) => {
  const { host, vm, later, shown } = await sleepStage(t)
  host.fakeUnits.failNext('ensureStopped', new HostFault('step_deadline', 'on purpose'), 'after')
  await later(IDLE_MS)
  await later(limits.retryBackoffMsMin)
  assert.deepEqual([shown(), vm().launch], ['sleeping', undefined])
})
