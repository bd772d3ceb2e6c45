import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { setPower } from '../commands/vm/set-power.ts'
import type { CommandContext } from '../commands/context.ts'
import type { VmId } from '../core/ids.ts'

/** A task that holds a VM until the test ends it, or until it is asked to end. */
function task() {
  const { promise, resolve } = Promise.withResolvers<'done'>()
  const seen = { begun: 0, aborted: 0 }
  const run = async (signal: AbortSignal): Promise<'done' | 'aborted'> => {
    seen.begun += 1
    const aborted = new Promise<'aborted'>((notify) => {
      signal.addEventListener('abort', () => notify('aborted'), { once: true })
    })
    const end = await Promise.race([promise, aborted])
    if (end === 'aborted') seen.aborted += 1
    return end
  }
  return { run, release: () => resolve('done'), seen }
}

test('no pass begins during a task between passes, and requests from that time are handled afterwards', async (t) => {
  const { context, id, vm, create, idle, turns, betweenPasses } = await reconcileStage(t)
  create()
  await idle()
  const { run, release } = task()
  const held = betweenPasses(id, run)
  setPower(context, id, 'paused')
  await turns()
  assert.equal(vm().observed.state, 'running')
  release()
  assert.equal(await held, 'done')
  await idle()
  assert.equal(vm().observed.state, 'paused')
})

test('a task between passes begins only when a pass has ended', async (t) => {
  const { host, id, create, idle, turns, betweenPasses } = await reconcileStage(t)
  const fetched = host.storage.holdNext('ensureImage')
  create()
  await turns()
  const { run, release, seen } = task()
  const held = betweenPasses(id, run)
  await turns()
  assert.equal(seen.begun, 0)
  fetched()
  await turns()
  assert.equal(seen.begun, 1)
  release()
  await held
  await idle()
})

test('the second of two tasks between passes waits for the first', async (t) => {
  const { id, create, idle, turns, betweenPasses } = await reconcileStage(t)
  create()
  await idle()
  const [first, second] = [task(), task()]
  const both = [betweenPasses(id, first.run), betweenPasses(id, second.run)]
  await turns()
  assert.deepEqual([first.seen.begun, second.seen.begun], [1, 0])
  first.release()
  await turns()
  assert.equal(second.seen.begun, 1)
  second.release()
  assert.deepEqual(await Promise.all(both), ['done', 'done'])
})

test('a task between passes of one VM does not delay the passes of another', async (t) => {
  const { store, id, create, idle, turns, betweenPasses } = await reconcileStage(t)
  create()
  await idle()
  const { run, release } = task()
  const held = betweenPasses(id, run)
  create({ network: { ipv4Address: '192.0.2.11' } }, 'web-2' as VmId)
  await turns()
  assert.equal(store.vms.get('web-2' as VmId)?.observed.state, 'running')
  release()
  await held
})

for (const [what, end] of [
  ['a hard stop', (context: CommandContext, id: VmId) => setPower(context, id, 'stopped')],
  ['a deletion', deleteVm],
] as const) {
  test(`${what} aborts the task between passes`, async (t) => {
    const { store, context, id, create, idle, betweenPasses } = await reconcileStage(t)
    create()
    await idle()
    const { run } = task()
    const held = betweenPasses(id, run)
    end(context, id)
    assert.equal(await held, 'aborted')
    await idle()
    assert.ok([undefined, 'stopped'].includes(store.vms.get(id)?.observed.state))
  })
}

test('a deletion aborts the task between passes also while the guest may end by itself', async (t) => {
  const { store, context, id, create, idle, turns, betweenPasses } = await reconcileStage(t)
  create()
  await idle()
  setPower(context, id, 'stopped', { graceSeconds: 30 })
  await idle()
  const { run, release, seen } = task()
  const held = betweenPasses(id, run)
  await turns()
  deleteVm(context, id)
  await turns()
  const { aborted } = seen
  release()
  await held
  await idle()
  assert.deepEqual([aborted, store.vms.get(id)], [1, undefined])
})

test('a stop with grace aborts the task between passes, so that the guest has its time', async (t) => {
  const { host, context, id, vm, create, idle, turns, betweenPasses } = await reconcileStage(t)
  create()
  await idle()
  const { run, release } = task()
  const held = betweenPasses(id, run)
  setPower(context, id, 'stopped', { graceSeconds: 30 })
  await turns()
  release()
  assert.equal(await held, 'aborted')
  await idle()
  assert.equal(vm().stops.grace?.askedAtMs, host.clock.now())
})

test('a pause does not abort the task between passes', async (t) => {
  const { context, id, create, idle, turns, betweenPasses } = await reconcileStage(t)
  create()
  await idle()
  const { run, release } = task()
  const held = betweenPasses(id, run)
  setPower(context, id, 'paused')
  await turns()
  release()
  assert.equal(await held, 'done')
})

test('the deletion of a stopped VM waits for the task between passes', async (t) => {
  const { store, context, id, create, idle, turns, betweenPasses } = await reconcileStage(t)
  create({ power: 'stopped' })
  await idle()
  const { run, release } = task()
  const held = betweenPasses(id, run)
  deleteVm(context, id)
  await turns()
  assert.notEqual(store.vms.get(id), undefined)
  release()
  assert.equal(await held, 'done')
  await idle()
  assert.equal(store.vms.get(id), undefined)
})

test('a reconciler that stops aborts the task between passes, and waits for its end', async (t) => {
  const { id, create, idle, turns, betweenPasses, stop } = await reconcileStage(t)
  create()
  await idle()
  const { run, seen } = task()
  const events: string[] = []
  const held = betweenPasses(id, async (signal) => {
    const end = await run(signal)
    await turns()
    events.push('it let go')
    return end
  })
  const queued = betweenPasses(id, run)
  await turns()
  await stop()
  events.push('stopped')
  assert.deepEqual(seen, { begun: 1, aborted: 1 })
  assert.deepEqual(await Promise.all([held, queued]), ['aborted', undefined])
  assert.deepEqual(events, ['it let go', 'stopped'])
})

test('no task runs between passes of a VM without a worker', async (t) => {
  const { id, betweenPasses } = await reconcileStage(t)
  const { run, seen } = task()
  assert.equal(await betweenPasses(id, run), undefined)
  assert.equal(seen.begun, 0)
})

test('a task that fails lets the VM move again', async (t) => {
  const { context, id, vm, create, idle, betweenPasses } = await reconcileStage(t)
  create()
  await idle()
  await assert.rejects(
    betweenPasses(id, async () => {
      throw new Error('on purpose')
    }),
    /on purpose/,
  )
  setPower(context, id, 'paused')
  await idle()
  assert.equal(vm().observed.state, 'paused')
})
