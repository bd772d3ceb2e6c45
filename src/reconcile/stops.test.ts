import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sleepStage } from '../../test/sleep-stage.ts'
import { setCompute } from '../commands/vm/reshape.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { HostFault } from '../core/errors.ts'
import type { DesiredPower } from '../core/desired.ts'

const RESYNC_MS = 2 * 60 * 60_000
const LARGER = { cpuMillicores: 1000, memoryMib: 512, sleepAfterIdleSeconds: 60 }

for (const power of ['running', 'paused'] as const satisfies readonly DesiredPower[]) {
  test(`a stop that ${power} overtakes ends the guest first, and the start after it is a boot`, async (t) => {
    const stage = await sleepStage(t)
    const { context, host, id, vm, idle } = stage
    const { life } = host.monitor.memoryOf(id)
    setPower(context, id, 'stopped')
    setPower(context, id, power)
    await idle()
    assert.equal(stage.shown(), power)
    assert.notEqual(host.monitor.memoryOf(id).life, life)
    assert.deepEqual([host.ended, vm().exitStreak], [[id], 0])
    assert.deepEqual(vm().generations, { desired: 3, observed: 3 })
    assert.deepEqual(vm().stops, { accepted: 2, carriedOut: 2 })
  })

  test(`a stop of a sleeping VM removes its saved state, although ${power} overtakes it`, async (t) => {
    const stage = await sleepStage(t)
    const { context, host, id, idle } = stage
    const { life } = host.monitor.memoryOf(id)
    await stage.fallAsleep()
    stage.receive('for the guest that ended')
    setPower(context, id, 'stopped')
    setPower(context, id, power)
    await idle()
    assert.equal(stage.shown(), power)
    assert.notEqual(host.monitor.memoryOf(id).life, life)
    assert.deepEqual([host.savedFiles.paths(), stage.given()], [[], []])
    assert.equal(stage.vm().wake, undefined)
  })
}

test('a stop is carried out when the pool comes back, and until then the VM is not stopped for a change', async (t) => {
  const stage = await sleepStage(t)
  const { context, host, id, vm, idle, later } = stage
  const { life } = host.monitor.memoryOf(id)
  await stage.fallAsleep()
  host.storage.setInSight(false)
  setPower(context, id, 'stopped')
  await idle()
  assert.equal(stage.shown(), 'stopping storage_inspection_failed')
  const refused = setCompute(context, id, LARGER)
  assert.ok(!refused.ok && refused.error.code === 'vm_not_stopped')
  setPower(context, id, 'running')
  await idle()
  assert.equal(stage.shown(), 'stopping storage_inspection_failed')
  host.storage.setInSight(true)
  await later(RESYNC_MS)
  assert.equal(vm().generations.observed, vm().generations.desired)
  // The guest may have fallen asleep again meanwhile.
  const remembered = host.savedFiles.at(host.savedStates.paths(id).published)?.memory.life
  assert.notEqual(remembered ?? host.monitor.memoryOf(id).life, life)
  assert.deepEqual(host.monitor.relived, [])
})

test('a stop ends a step that is under way, although another power overtakes it', async (t) => {
  const { context, host, id, shown, create, turns, idle } = await reconcileStage(t)
  const fetched = host.storage.holdNext('ensureImage')
  create()
  await turns()
  setPower(context, id, 'stopped')
  setPower(context, id, 'running')
  // Not released: the step ends because it is aborted.
  await idle()
  fetched()
  assert.equal(shown(), 'running')
})

test('a stop that cannot be carried out keeps the guest from starting', async (t) => {
  const { context, host, id, vm, shown, create, idle, later } = await reconcileStage(t)
  create()
  await idle()
  const { life } = host.monitor.memoryOf(id)
  host.fakeUnits.ensureStopped = () => Promise.reject(new HostFault('systemd_unavailable', 'on purpose'))
  setPower(context, id, 'stopped')
  setPower(context, id, 'running')
  await later(1000)
  assert.equal(host.monitor.memoryOf(id).life, life)
  assert.equal(vm().stops.carriedOut, 0)
  assert.equal(vm().generations.observed, 1)
  assert.equal(shown(), 'failed systemd_unavailable')
})

test('the next daemon carries a stop out that was accepted by this one', async (t) => {
  const stage = await sleepStage(t)
  const { context, host, id, idle } = stage
  const { life } = host.monitor.memoryOf(id)
  await stage.stop()
  setPower(context, id, 'stopped')
  setPower(context, id, 'running')
  await stage.start()
  await idle()
  assert.equal(stage.shown(), 'running')
  assert.notEqual(host.monitor.memoryOf(id).life, life)
})

test('a VM that was created as stopped, and cannot be made ready, can be changed', async (t) => {
  const { context, host, id, shown, create, idle } = await reconcileStage(t)
  host.storage.failNext('ensureImage', new HostFault('image_unavailable', 'on purpose'))
  create({ power: 'stopped' })
  const early = setCompute(context, id, LARGER)
  assert.ok(!early.ok && early.error.code === 'vm_not_stopped', 'no pass has looked yet')
  await idle()
  assert.equal(shown(), 'failed image_unavailable')
  assert.ok(setCompute(context, id, LARGER).ok)
})

test('memory of another shape than the VM has is refused, and a stop is the way out', async (t) => {
  const stage = await sleepStage(t)
  const { context, host, id, store, idle } = stage
  await stage.fallAsleep()
  const { desired } = stage.vm()
  // Simulates the state that an earlier daemon may have left.
  store.vms.changeDesired(id, {
    desired: { ...desired, compute: LARGER },
    operationId: 'op-x' as never,
    nowMs: 1,
  })
  setPower(context, id, 'paused')
  await idle()
  assert.equal(stage.shown(), 'failed saved_state_foreign')
  assert.match(
    stage.vm().observed.fault?.message ?? '',
    /saved with 256 MiB and 1 vCPUs, and the VM has 512 MiB/,
  )
  setPower(context, id, 'stopped')
  setPower(context, id, 'running')
  await idle()
  assert.equal(stage.shown(), 'running')
  assert.deepEqual(host.savedFiles.paths(), [])
})

test('a deletion comes before a stop that is not carried out', async (t) => {
  const stage = await sleepStage(t)
  const { context, host, id, store, idle } = stage
  await stage.fallAsleep()
  setPower(context, id, 'stopped')
  setPower(context, id, 'running')
  deleteVm(context, id)
  await idle()
  assert.equal(store.vms.get(id), undefined)
  assert.deepEqual(host.savedFiles.paths(), [])
})
