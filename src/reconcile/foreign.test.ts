import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import type { UserId } from '../core/ids.ts'

type Stage = Awaited<ReturnType<typeof reconcileStage>>

/**
 * Restores the record of a VM that was deleted and created again since: its unit and its disk belong to the newer VM.
 */
async function withOlderRecord(stage: Stage): Promise<void> {
  const { host, id, create, idle } = stage
  create()
  await idle()
  const unit = host.fakeUnits.stateOf(id)
  assert.ok(unit.kind === 'active')
  const disk = host.storage.disks.get(id)
  assert.ok(disk?.note !== undefined)
  const mark = { ...disk.note.mark, createdAtMs: disk.note.mark.createdAtMs + 1000 }
  host.storage.disks.set(id, { ...disk, note: { ...disk.note, mark } })
  host.fakeUnits.setMark(id, mark)
  await stage.noticed()
}

test('a VM of the same id that the record does not know is neither taken over nor stopped', async (t) => {
  const stage = await reconcileStage(t)
  const { host, id, context, shown, idle } = stage
  await withOlderRecord(stage)
  assert.equal(shown(), 'failed unit_foreign')
  setPower(context, id, 'stopped')
  await idle()
  assert.equal(stage.vm().observed.fault?.code, 'unit_foreign')
  assert.equal(host.fakeUnits.stateOf(id).kind, 'active')
  assert.deepEqual(host.ended, [])
})

test('a record under deletion goes, and leaves unit, disk and traffic of the newer VM of its id', async (t) => {
  const stage = await reconcileStage(t)
  const { host, id, context, store, idle } = stage
  await withOlderRecord(stage)
  const older = stage.vm().host
  deleteVm(context, id)
  await idle()
  assert.equal(store.vms.get(id), undefined)
  assert.equal(host.fakeUnits.stateOf(id).kind, 'active')
  assert.ok(host.storage.disks.has(id))
  assert.equal((await host.traffic.inspect(older)).kind, 'watched')
})

test('a new VM never boots a disk that was there under its id, and its deletion leaves the disk', async (t) => {
  const { host, id, create, idle, shown, context, store } = await reconcileStage(t)
  const orphan = {
    sizeMib: 64,
    userId: 700_000 as UserId,
    note: { mark: { storeId: 'a-lost-store', createdAtMs: 1 } },
  }
  host.storage.disks.set(id, orphan)
  create()
  await idle()
  assert.equal(shown(), 'failed disk_foreign')
  assert.equal(host.fakeUnits.stateOf(id).kind, 'absent')
  deleteVm(context, id)
  await idle()
  assert.equal(store.vms.get(id), undefined)
  assert.deepEqual(host.storage.disks.get(id), orphan)
})

test('a new VM starts from its own image once the disk of its id is out of the pool', async (t) => {
  const { host, id, create, idle, shown, later } = await reconcileStage(t)
  host.storage.disks.set(id, { sizeMib: 64, userId: 700_000 as UserId })
  create()
  await idle()
  assert.equal(shown(), 'failed disk_foreign')
  host.storage.disks.delete(id)
  await later(limits.retryBackoffMsMax)
  assert.equal(shown(), 'running')
})

test('a disk of an older daemon gets its note, and one that was put back gets its owner', async (t) => {
  const { host, id, create, idle, shown, noticed, store, vm } = await reconcileStage(t)
  create()
  await idle()
  host.storage.disks.set(id, { sizeMib: 64, userId: 0 as UserId })
  await noticed()
  assert.equal(shown(), 'running')
  const disk = host.storage.disks.get(id)
  assert.deepEqual(disk?.note?.mark, { storeId: store.storeId, createdAtMs: vm().createdAtMs })
  assert.equal(disk?.userId, vm().host.userId)
})
