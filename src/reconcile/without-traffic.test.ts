import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { SLEEPER } from '../../test/sleep-stage.ts'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { setCompute } from '../commands/vm/reshape.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import type { TestContext } from 'node:test'

/** A host that cannot know the traffic of guests, such as one without BPF. */
async function withoutTraffic(t: TestContext) {
  const stage = await reconcileStage(t)
  const { traffic } = stage.host
  const refused = (): Promise<never> => Promise.reject(new HostFault('traffic_failed', 'no BPF'))
  for (const method of [
    'inspect',
    'ensureWatched',
    'restart',
    'ensureHeld',
    'ensureFlowing',
    'remove',
  ] as const)
    traffic[method] = refused
  return stage
}

test('without traffic a VM that never sleeps is as desired, and says what is not known', async (t) => {
  const { context, create, id, vm, idle, shown } = await withoutTraffic(t)
  create({})
  await idle()
  assert.equal(shown(), 'running')
  assert.deepEqual(vm().generations, { desired: 1, observed: 1 })
  assert.deepEqual(
    vm().observed.partialFaults?.map(({ step }) => step),
    ['traffic.inspect'],
  )
  setPower(context, id, 'running')
  await idle()
  assert.equal(vm().wake, undefined)
})

test('a VM that should sleep runs, is not as desired, and says why', async (t) => {
  const { context, create, id, vm, idle, later, shown } = await withoutTraffic(t)
  create({ compute: SLEEPER })
  await idle()
  assert.equal(shown(), 'running traffic_failed')
  await later(limits.retryBackoffMsMax)
  assert.equal(shown(), 'running traffic_failed')
  assert.equal(vm().generations.observed, 0)
  setCompute(context, id, { ...SLEEPER, sleepAfterIdleSeconds: 0 })
  await idle()
  assert.deepEqual([shown(), vm().generations.observed], ['running', 2])
})

test('a VM is stopped and deleted without traffic', async (t) => {
  const { host, store, context, create, id, idle, shown } = await withoutTraffic(t)
  create({ compute: SLEEPER })
  await idle()
  setPower(context, id, 'stopped')
  await idle()
  assert.equal(shown(), 'stopped')
  deleteVm(context, id)
  await idle()
  assert.deepEqual([store.vms.get(id), [...host.taps.devices.keys()]], [undefined, []])
})

test('without traffic a guest goes on after a reboot of the host, and its wake ends', async (t) => {
  const { host, create, vm, idle, later, shown, endWithHost, stop, start } = await withoutTraffic(t)
  create({})
  await idle()
  await endWithHost()
  await stop()
  await host.reboot()
  await start()
  await idle()
  // Until frames that an earlier program may have held are too old, the wake might have some to deliver.
  assert.equal(shown(), 'running traffic_failed')
  await later(limits.heldFrameAgeMs + limits.resyncMs)
  assert.equal(shown(), 'running')
  // How long the wake took is not known.
  assert.deepEqual([vm().observed.lastWake, vm().wake], [undefined, undefined])
})
