import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { sleepStage } from '../../test/sleep-stage.ts'
import { setDisk } from '../commands/vm/reshape.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import { deadlineMsOf } from './steps/steps.ts'

test('a step that takes longer than its deadline is stopped, and reported as a fault', async (t) => {
  const { host, clock, vm, shown, create, turns } = await reconcileStage(t)
  host.storage.holdNext('ensureImage')
  create()
  await turns()
  clock.advance(limits.imageStepMs - 1)
  await turns()
  assert.equal(vm().observed.fault, undefined)
  clock.advance(1)
  await turns()
  assert.equal(shown(), 'failed step_deadline')
  assert.match(
    vm().observed.fault?.message ?? '',
    /^image\.ensure-fetched took longer than 86400 s and was stopped/,
  )
})

test('a step that ignores a request to stop is abandoned after a short grace', async (t) => {
  const { host, clock, vm, shown, create, turns } = await reconcileStage(t)
  const deaf = mock.method(host.storage, 'ensureImage', () => new Promise(() => {}))
  create()
  await turns()
  clock.advance(limits.imageStepMs)
  await turns()
  clock.advance(limits.stepGraceMs - 1)
  await turns()
  assert.equal(vm().observed.fault, undefined)
  deaf.mock.restore()
  clock.advance(1)
  await turns()
  assert.equal(shown(), 'failed step_deadline')
  assert.match(vm().observed.fault?.message ?? '', /and did not stop when it was asked to$/)
  clock.advance(limits.retryBackoffMsMax)
  await turns()
  assert.equal(shown(), 'running')
})

test('the length of an image is known as soon as the image was fetched', async (t) => {
  const { vm, imageMib, create, idle } = await reconcileStage(t)
  create()
  await idle()
  assert.equal(imageMib(vm().desired.image.rootfsSha256), 1)
})

test('a hard stop does not wait for the growth of a disk that takes long', async (t) => {
  const { host, clock, context, id, shown, create, idle, turns } = await reconcileStage(t)
  create()
  await idle()
  const hangs = mock.method(host.storage, 'ensureDisk', () => new Promise(() => {}))
  setDisk(context, id, { sizeMib: 4096 })
  await turns()
  assert.equal(hangs.mock.callCount(), 1)
  setPower(context, id, 'stopped')
  await turns()
  hangs.mock.restore()
  clock.advance(limits.stepGraceMs)
  await turns()
  assert.equal(shown(), 'stopped')
})

test('a restore is stopped at the deadline that its length gives it', async (t) => {
  const { host, clock, vm, shown, fallAsleep, receive, turns } = await sleepStage(t)
  await fallAsleep()
  const restore = { kind: 'monitor.ensure-restored', because: 'packets came' } as const
  const deadlineMs = deadlineMsOf(restore, vm())
  assert.ok(deadlineMs > limits.restoreMs)
  host.monitor.holdNext('ensureRestored')
  receive('packet')
  await turns()
  clock.advance(deadlineMs - 1)
  await turns()
  assert.equal(shown(), 'waking')
  clock.advance(1)
  await turns()
  assert.equal(shown(), 'failed step_deadline')
})
