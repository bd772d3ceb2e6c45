/** VMs whose records cannot be written for a while. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lockStore } from '../../test/locked-store.ts'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { IDLE_MS, sleepStage } from '../../test/sleep-stage.ts'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'

test('a stop that was accepted before is carried out, and its generation is reached when it can be stored', async (t) => {
  const { directory, host, context, id, vm, create, idle, later, shown, turns } = await reconcileStage(t)
  create()
  await idle()
  const release = host.storage.holdNext('inspect')
  setPower(context, id, 'stopped')
  await turns()
  const free = lockStore(directory)
  release()
  await idle()
  assert.equal(host.fakeUnits.stateOf(id).kind, 'absent')
  assert.deepEqual([shown(), vm().generations], ['stopped', { desired: 2, observed: 1 }])
  await free()
  await later(limits.retrySoonMs)
  assert.deepEqual([shown(), vm().generations], ['stopped', { desired: 2, observed: 2 }])
})

test('a monitor that ends is reported, and started again', async (t) => {
  const { directory, host, id, create, idle, later, shown } = await reconcileStage(t)
  create()
  await idle()
  const free = lockStore(directory)
  host.fakeUnits.exit(id, 1)
  await idle()
  assert.equal(shown(), 'failed vm_exited')
  await later(limits.retryBackoffMsMin)
  assert.equal(shown(), 'running')
  await free()
  await later(limits.resyncMs)
  assert.equal(shown(), 'running')
})

test('a VM that sleeps is woken by traffic, once, and stays awake until its record can be written', async (t) => {
  const stage = await sleepStage(t)
  const { directory, host, vm, idle, later, shown, receive, given, goesOn, fallAsleep } = stage
  await fallAsleep()
  const free = lockStore(directory)
  receive('first')
  await idle()
  assert.ok(goesOn())
  assert.equal(shown(), 'running')
  assert.deepEqual([given(), host.savedFiles.paths()], [['first'], []])
  await later(2 * IDLE_MS)
  assert.equal(shown(), 'running state_unwritable')
  assert.ok(goesOn())
  await free()
  await later(limits.retryBackoffMsMax)
  await later(limits.retryBackoffMsMax)
  assert.equal(shown(), 'sleeping')
  assert.equal(vm().observed.fault, undefined)
})

test('a deletion ends when it can be stored, and nothing of the VM is left meanwhile', async (t) => {
  const { directory, host, context, store, id, create, idle, later, turns } = await reconcileStage(t)
  create()
  await idle()
  const release = host.storage.holdNext('inspect')
  assert.ok(deleteVm(context, id).ok)
  await turns()
  const free = lockStore(directory)
  release()
  await idle()
  assert.equal(host.storage.disks.size, 0)
  assert.equal(store.vms.get(id)?.observed.fault?.code, 'state_unwritable')
  await free()
  await later(limits.retryBackoffMsMax)
  assert.equal(store.vms.get(id), undefined)
})
