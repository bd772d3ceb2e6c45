import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { IDLE_MS, SLEEPER, sleepStage } from '../../test/sleep-stage.ts'
import { setCompute } from '../commands/vm/reshape.ts'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'

type Stage = Awaited<ReturnType<typeof sleepStage>>

/** Points at which a save may pause, by the call that it makes there. */
const POINTS: Record<string, (stage: Stage) => () => void> = {
  'while it is paused': ({ host }) => host.monitor.holdNext('ensurePaused'),
  'while its file is made': ({ host }) => host.savedStates.holdNext('ensureMemoryFile'),
  'while it is saved': ({ host }) => host.monitor.holdNext('save'),
  'while it is published': ({ host }) => host.savedStates.holdNext('publish'),
}

const isAwake = (stage: Stage, packets: readonly string[]): void => {
  const { host, id, shown, given, goesOn } = stage
  assert.equal(shown(), 'running')
  assert.ok(goesOn(), 'the guest goes on')
  assert.equal(host.savedFiles.at(host.savedStates.paths(id).published), undefined)
  assert.deepEqual(host.savedFiles.paths(), [])
  assert.deepEqual([given(), host.traffic.lost, host.monitor.relived], [packets, [], []])
  assert.deepEqual(host.ended, [])
}

for (const [when, hold] of Object.entries(POINTS)) {
  test(`a packet that comes for a guest ${when} keeps it awake, and reaches it`, async (t) => {
    const stage = await sleepStage(t)
    const release = hold(stage)
    await stage.beDue()
    assert.equal(stage.shown(), 'running')
    stage.receive('first')
    release()
    await stage.idle()
    isAwake(stage, ['first'])
    assert.equal(stage.vm().observed.lastWake, undefined, 'no guest was woken')
    await stage.later(IDLE_MS)
    assert.equal(stage.shown(), 'sleeping')
  })

  test(`a change that comes for a guest ${when} keeps it awake`, async (t) => {
    const stage = await sleepStage(t)
    const release = hold(stage)
    await stage.beDue()
    setCompute(stage.context, stage.id, { ...SLEEPER, sleepAfterIdleSeconds: 0 })
    await stage.turns()
    release()
    await stage.idle()
    isAwake(stage, [])
    assert.equal(stage.vm().generations.observed, 2)
  })

  test(`a request for a guest ${when} keeps it awake`, async (t) => {
    const stage = await sleepStage(t)
    const release = hold(stage)
    await stage.beDue()
    setPower(stage.context, stage.id, 'running')
    await stage.turns()
    release()
    await stage.idle()
    isAwake(stage, [])
    assert.equal(stage.vm().wake, undefined)
  })

  test(`a stop ends a guest ${when}`, async (t) => {
    const stage = await sleepStage(t)
    const release = hold(stage)
    await stage.beDue()
    setPower(stage.context, stage.id, 'stopped')
    await stage.turns()
    release()
    await stage.idle()
    assert.equal(stage.shown(), 'stopped')
    assert.deepEqual(stage.host.savedFiles.paths(), [])
  })

  test(`a daemon that stops lets a guest go on ${when}`, async (t) => {
    const stage = await sleepStage(t)
    const release = hold(stage)
    await stage.beDue()
    const stopped = stage.stop()
    release()
    await stopped
    assert.ok(stage.goesOn())
    await stage.start()
    await stage.idle()
    isAwake(stage, [])
    await stage.later(IDLE_MS)
    assert.equal(stage.shown(), 'sleeping')
  })
}

test('a guest has its packet before its save has ended, and what was saved is removed only then', async (t) => {
  const stage = await sleepStage(t)
  const { host, goesOn, given, turns, idle } = stage
  const release = host.monitor.holdNext('save')
  const removed = t.mock.method(host.savedStates, 'remove')
  await stage.beDue()
  const end = host.monitor.holdNext('ensureRunning')
  stage.receive('first')
  release()
  await turns()
  const before = [goesOn(), given(), removed.mock.callCount()]
  end()
  await idle()
  assert.deepEqual(before, [true, ['first'], 0])
  assert.ok(removed.mock.callCount() > 0)
  isAwake(stage, ['first'])
})

test('a guest that cannot be saved runs on, says so, and is tried again', async (t) => {
  const stage = await sleepStage(t)
  stage.host.monitor.failNext('save', new HostFault('save_failed', 'on purpose'))
  await stage.later(IDLE_MS)
  assert.equal(stage.shown(), 'running save_failed')
  assert.ok(stage.goesOn())
  assert.deepEqual(stage.host.savedFiles.paths(), [])
  stage.receive('flows')
  assert.deepEqual(stage.given(), ['flows'])
  await stage.later(limits.retryBackoffMsMin)
  assert.equal(stage.shown(), 'running save_failed', 'it is not idle any more, and the fault stays')
  await stage.later(IDLE_MS)
  assert.equal(stage.shown(), 'sleeping')
})

test('a fault of a save does not stay: the next save clears it', async (t) => {
  const stage = await sleepStage(t)
  stage.host.savedStates.failNext('publish', new HostFault('save_failed', 'on purpose'))
  await stage.later(IDLE_MS)
  assert.equal(stage.shown(), 'running save_failed')
  await stage.later(limits.retryBackoffMsMin)
  assert.equal(stage.shown(), 'sleeping')
})

test('a guest whose memory was not flushed while it was saved runs on, and says so', async (t) => {
  const stage = await sleepStage(t)
  stage.host.savedStates.failNext('flushingWhile', new HostFault('storage_failed', 'on purpose'))
  await stage.later(IDLE_MS)
  assert.equal(stage.shown(), 'running storage_failed')
  assert.ok(stage.goesOn())
})

test('a save that succeeds ends the fault of the last, although a packet keeps the guest awake', async (t) => {
  const stage = await sleepStage(t)
  const { savedStates } = stage.host
  savedStates.failNext('publish', new HostFault('save_failed', 'on purpose'))
  await stage.later(IDLE_MS)
  assert.equal(stage.shown(), 'running save_failed')
  const publish = savedStates.publish.bind(savedStates)
  savedStates.publish = async (...args) => {
    const published = await publish(...args)
    stage.receive('late')
    return published
  }
  await stage.later(limits.retryBackoffMsMin)
  isAwake(stage, ['late'])
})

test('a state that was published although its publication failed is removed before the guest runs again', async (t) => {
  const stage = await sleepStage(t)
  stage.host.savedStates.failNext('publish', new HostFault('save_failed', 'on purpose'), 'after')
  await stage.later(IDLE_MS)
  assert.equal(stage.shown(), 'running save_failed')
  isAwakeDespite(stage)
})

test('a guest that is wanted during its publication does not wait for the removal of an unfinished state', async (t) => {
  const stage = await sleepStage(t)
  const { host } = stage
  host.savedStates.holdNext('publish')
  const removed = host.savedStates.holdNext('remove')
  await stage.beDue()
  stage.receive('first')
  await stage.turns()
  const meanwhile = [stage.goesOn(), stage.given()]
  removed()
  await stage.idle()
  assert.deepEqual(meanwhile, [true, ['first']])
  isAwake(stage, ['first'])
})

test('a guest whose state may be published and cannot be removed stays paused until that is known', async (t) => {
  const stage = await sleepStage(t)
  const { host, id } = stage
  host.savedStates.failNext('publish', new HostFault('save_failed', 'on purpose'), 'after')
  host.savedStates.failNext('removePublished', new HostFault('storage_failed', 'on purpose'))
  await stage.later(IDLE_MS)
  assert.equal(stage.shown(), 'sleeping', 'it is saved after all')
  assert.notEqual(host.savedFiles.at(host.savedStates.paths(id).published), undefined)
  stage.receive('first')
  await stage.idle()
  assert.ok(stage.goesOn())
  assert.deepEqual([stage.given(), host.monitor.relived], [['first'], []])
})

test('few guests are saved at a time, and the others take their turn', async (t) => {
  assert.ok(limits.savesMax < limits.passesMax, 'others go on meanwhile')
  const stage = await sleepStage(t)
  const { host, store } = stage
  for (let other = 2; other <= limits.savesMax + 1; other += 1) stage.createAnother(other)
  await stage.idle()
  const releases = Array.from({ length: limits.savesMax }, () => host.monitor.holdNext('save'))
  await stage.beDue()
  const paused = (): number =>
    store.vms.ids().filter((id) => host.monitor.stateOf(id).kind === 'paused').length
  assert.equal(paused(), limits.savesMax)
  for (const release of releases) release()
  await stage.turns()
  assert.equal(paused(), 0)
  assert.deepEqual(
    store.vms.list({}).map(({ observed }) => observed.state),
    Array.from({ length: limits.savesMax + 1 }, () => 'sleeping'),
  )
})

test('a VM that waits for a turn is not inspected meanwhile, and one that no longer wants its turn passes it on', async (t) => {
  const stage = await sleepStage(t)
  const { host, store } = stage
  for (let other = 2; other <= limits.savesMax + 2; other += 1) stage.createAnother(other)
  await stage.idle()
  const releases = Array.from({ length: limits.savesMax }, () => host.monitor.holdNext('save'))
  await stage.beDue()
  const waiting = store.vms.list({}).filter(({ id }) => host.monitor.stateOf(id).kind === 'running')
  assert.equal(waiting.length, 2)
  let looks = 0
  const inspect = host.monitor.inspect.bind(host.monitor)
  host.monitor.inspect = (id) => {
    looks += 1
    return inspect(id)
  }
  stage.clock.advance(limits.resyncMs / 2)
  await stage.turns()
  assert.equal(looks, 0)
  const [first, second] = waiting.map(({ host: { device } }) => device)
  assert.ok(first !== undefined && second !== undefined)
  host.traffic.receive(first)
  releases[0]?.()
  await stage.turns()
  const stateOf = (device: string | undefined): string | undefined =>
    store.vms.list({}).find(({ host: of }) => of.device === device)?.observed.state
  assert.deepEqual([stateOf(first), stateOf(second)], ['running', 'sleeping'])
  for (const release of releases) release()
  await stage.turns()
})

for (const [what, fail] of Object.entries({
  'traffic.ensure-held': ({ host }: Stage, fault: HostFault) => {
    host.traffic.ensureHeld = () => Promise.reject(fault)
  },
  'monitor.ensure-saved': ({ host }: Stage, fault: HostFault) => {
    host.monitor.save = () => Promise.reject(fault)
  },
})) {
  test(`a guest whose ${what} always fails is tried less and less often, whatever comes for it`, async (t) => {
    const stage = await sleepStage(t)
    let tries = 0
    fail(stage, new HostFault('save_failed', 'on purpose'))
    const ensureHeld = stage.host.traffic.ensureHeld.bind(stage.host.traffic)
    stage.host.traffic.ensureHeld = (subject) => {
      tries += 1
      return ensureHeld(subject)
    }
    await stage.later(IDLE_MS)
    for (let ms = 0; ms < 300_000; ms += 500) {
      await stage.later(500)
      assert.equal(stage.shown(), 'running save_failed')
    }
    // 1 + 2 + 4 + 8 + 16 + 32 s, and then each minute, less the jitter.
    assert.ok(tries > 8 && tries < 16, `${tries} tries`)
    const { attempt = 0 } = stage.vm().observed.fault ?? {}
    assert.equal(attempt, tries)
    stage.receive('first')
    await stage.noticed()
    assert.equal(stage.shown(), 'running save_failed')
    await stage.later(2 * IDLE_MS)
    assert.ok((stage.vm().observed.fault?.attempt ?? 0) > attempt)
    setCompute(stage.context, stage.id, { ...SLEEPER, sleepAfterIdleSeconds: 0 })
    await stage.idle()
    assert.equal(stage.shown(), 'running', 'it must not sleep any more')
  })
}

test('a failed save that cannot be fully undone hides neither its fault nor the rest', async (t) => {
  const stage = await sleepStage(t)
  const { host } = stage
  host.monitor.failNext('save', new HostFault('save_failed', 'on purpose'), 'after')
  host.traffic.failNext('ensureFlowing', new HostFault('traffic_failed', 'on purpose'))
  const remove = host.savedStates.remove.bind(host.savedStates)
  const atRemoval: unknown[] = []
  host.savedStates.remove = (id) => {
    atRemoval.push([stage.shown(), host.monitor.clocksSet.length])
    return remove(id)
  }
  const codes: (string | undefined)[] = []
  stage.store.onVmChange((id) => codes.push(stage.store.vms.get(id)?.observed.fault?.code))
  await stage.later(IDLE_MS)
  assert.deepEqual([...new Set(codes)], ['save_failed'])
  assert.deepEqual(atRemoval, [['running', 1]], 'it is removed at once, and the guest knows the time by then')
  await stage.later(limits.unitRecheckMs)
  stage.receive('flows')
  assert.deepEqual(stage.given(), ['flows'])
})

function isAwakeDespite({ host, goesOn }: Stage): void {
  assert.ok(goesOn())
  assert.deepEqual([host.savedFiles.paths(), host.monitor.relived, host.ended], [[], [], []])
}

for (const [what, end] of [
  ['a stop', (stage: Stage) => setPower(stage.context, stage.id, 'stopped')],
  ['a deletion', (stage: Stage) => deleteVm(stage.context, stage.id)],
] as const) {
  test(`${what} ends a guest whose save does not end`, async (t) => {
    const stage = await sleepStage(t)
    const deaf = mock.method(stage.host.monitor, 'save', () => new Promise(() => {}))
    await stage.beDue()
    assert.equal(deaf.mock.callCount(), 1)
    end(stage)
    await stage.turns()
    assert.equal(stage.host.ended.length, 0, 'the monitor has a short time to give the save up')
    stage.clock.advance(limits.stepGraceMs)
    await stage.idle()
    assert.equal(stage.host.ended.length, 1)
    deaf.mock.restore()
  })
}

test('a guest that an older installed monitor could not restore runs on, and is tried less and less often', async (t) => {
  const stage = await sleepStage(t)
  stage.host.monitor.version = '0.9'
  const save = mock.method(stage.host.monitor, 'save')
  await stage.later(IDLE_MS)
  assert.deepEqual([stage.shown(), save.mock.callCount()], ['running save_failed', 1])
  for (let attempt = 2; attempt <= 3; attempt += 1) {
    await stage.later(limits.retryBackoffMsMax)
    assert.deepEqual([stage.vm().observed.fault?.attempt, save.mock.callCount()], [attempt, attempt])
  }
  isAwakeDespite(stage)
})

test('a save that does not end gives its place to another guest in a time that fits its memory', async (t) => {
  const stage = await sleepStage(t)
  for (let other = 2; other <= limits.savesMax + 1; other += 1) stage.createAnother(other)
  await stage.idle()
  const deaf = mock.method(stage.host.monitor, 'save', () => new Promise(() => {}))
  await stage.beDue()
  assert.equal(deaf.mock.callCount(), limits.savesMax)
  deaf.mock.restore()
  await stage.later(limits.saveMs + SLEEPER.memoryMib * limits.saveMsPerMib + limits.stepGraceMs)
  await stage.later(limits.sleepRecheckMs)
  const asleep = stage.store.vms.list({ limit: 100 }).filter(({ observed }) => observed.state === 'sleeping')
  assert.ok(asleep.length > 0, 'the last one sleeps')
})

for (const [how, end] of [
  ['fails', ({ reject }) => reject(new HostFault('save_failed', 'on purpose'))],
  ['succeeds', ({ resolve }, stage) => resolve(stage.host.monitor.installed())],
] as const satisfies readonly (readonly [string, (late: LateSave, stage: Stage) => void])[]) {
  test(`a save that was abandoned and ${how} later leaves the next save of its guest alone`, async (t) => {
    const stage = await sleepStage(t)
    const { host, id } = stage
    const late: LateSave = Promise.withResolvers()
    const deaf = mock.method(host.monitor, 'save', () => late.promise)
    await stage.beDue()
    deaf.mock.restore()
    await stage.later(limits.saveMs + SLEEPER.memoryMib * limits.saveMsPerMib + limits.stepGraceMs)
    assert.equal(stage.shown(), 'running step_deadline')
    const release = host.savedStates.holdNext('publish')
    await stage.beDue()
    const isUnderWay = (): void => {
      assert.equal(host.monitor.stateOf(id).kind, 'paused')
      assert.equal(host.savedFiles.paths().length, 1)
    }
    isUnderWay()
    end(late, stage)
    await stage.turns()
    isUnderWay()
    release()
    await stage.idle()
    assert.equal(stage.shown(), 'sleeping')
  })
}

type LateSave = PromiseWithResolvers<Awaited<ReturnType<Stage['host']['monitor']['save']>>>
