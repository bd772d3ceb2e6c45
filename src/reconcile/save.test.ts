import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IDLE_MS, SLEEPER, sleepStage } from '../../test/sleep-stage.ts'
import { setCompute } from '../commands/reshape.ts'
import { setPower } from '../commands/set-power.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'

type Stage = Awaited<ReturnType<typeof sleepStage>>

/** Where a save may stand still, by what it calls then. */
const POINTS: Record<string, (stage: Stage) => () => void> = {
  'while it is paused': ({ host }) => host.monitor.holdNext('ensurePaused'),
  'while its directory is made': ({ host }) => host.savedStates.holdNext('ensureDirectory'),
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
    assert.equal(stage.vm().observed.lastWake, undefined, 'nobody was woken')
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
  assert.equal(stage.shown(), 'running', 'it is not idle any more, and the fault is over')
  await stage.later(IDLE_MS)
  assert.equal(stage.shown(), 'sleeping')
})

test('a fault of a save is not told for ever: the next save mends it', async (t) => {
  const stage = await sleepStage(t)
  stage.host.savedStates.failNext('publish', new HostFault('save_failed', 'on purpose'))
  await stage.later(IDLE_MS)
  assert.equal(stage.shown(), 'running save_failed')
  await stage.later(limits.retryBackoffMsMin)
  assert.equal(stage.shown(), 'sleeping')
})

test('a state that was published although its publication failed is gone before the guest goes on', async (t) => {
  const stage = await sleepStage(t)
  stage.host.savedStates.failNext('publish', new HostFault('save_failed', 'on purpose'), 'after')
  await stage.later(IDLE_MS)
  assert.equal(stage.shown(), 'running save_failed')
  isAwakeDespite(stage)
})

test('a guest whose state may be published and cannot be removed stands still until that is known', async (t) => {
  const stage = await sleepStage(t)
  const { host, id } = stage
  host.savedStates.failNext('publish', new HostFault('save_failed', 'on purpose'), 'after')
  host.savedStates.failNext('remove', new HostFault('storage_failed', 'on purpose'))
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
  await stage.idle()
  assert.equal(paused(), 0)
  await stage.later(limits.saveRecheckMs)
  assert.deepEqual(
    store.vms.all().map(({ observed }) => observed.state),
    Array.from({ length: limits.savesMax + 1 }, () => 'sleeping'),
  )
})

function isAwakeDespite({ host, goesOn }: Stage): void {
  assert.ok(goesOn())
  assert.deepEqual([host.savedFiles.paths(), host.monitor.relived, host.ended], [[], [], []])
}
