import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { SignedUrl } from '../core/outbound/signed-url.ts'
import { rebuildVm } from '../commands/vm/rebuild-vm.ts'
import { setCompute } from '../commands/vm/reshape.ts'
import { setBoot } from '../commands/vm/set-boot.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import type { TestContext } from 'node:test'
import type { Sha256 } from '../core/ids.ts'

const content = Buffer.from('another rootfs')
const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
const lost = { url: new SignedUrl('https://images.example.org/lost') }

/** Runs a VM that is stopped after its guest has run. */
async function stoppedVm(t: TestContext) {
  const stage = await reconcileStage(t)
  const { context, id, create, idle, host, vm } = stage
  create()
  await idle()
  setPower(context, id, 'stopped')
  await idle()
  return {
    ...stage,
    source: host.storage.offer(content),
    rebuild: async (source = lost) => {
      assert.ok(rebuildVm(context, id, { sha256, source }).ok)
      await idle()
    },
    noteOf: () => host.storage.disks.get(id)?.note,
    isSettled: () => vm().generations.observed === vm().generations.desired,
  }
}

test('a stopped VM is rebuilt at once, stays stopped, and boots as another instance', async (t) => {
  const { context, host, id, source, rebuild, noteOf, isSettled, vm, shown, idle } = await stoppedVm(t)
  await rebuild(source)
  assert.deepEqual([shown(), vm().observed.rebuild, isSettled()], ['stopped', 1, true])
  assert.deepEqual([noteOf()?.rootfsSha256, noteOf()?.rebuild], [sha256, 1])
  setPower(context, id, 'running')
  await idle()
  assert.equal(shown(), 'running')
  const [metaData] = host.storage.seeds.get(id)?.files ?? []
  assert.match(metaData?.content ?? '', /instance-id: "web-1-\d+-2"/)
})

test('a rebuild whose image cannot be fetched keeps the disk, says why, and continues with a fresh URL', async (t) => {
  const { source, rebuild, noteOf, isSettled, vm, shown } = await stoppedVm(t)
  await rebuild()
  assert.deepEqual(
    [shown(), isSettled(), vm().observed.rebuild],
    ['stopped image_unavailable', false, undefined],
  )
  assert.equal(noteOf()?.rebuild, undefined)
  await rebuild(source)
  assert.deepEqual([shown(), isSettled(), noteOf()?.rebuild], ['stopped', true, 1])
})

test('a rebuild that was seen stays done while the pool is out of sight', async (t) => {
  const { context, host, id, source, rebuild, store, vm, idle } = await stoppedVm(t)
  await rebuild(source)
  const { disksMib } = store.vms.recorded()
  host.storage.setInSight(false)
  assert.ok(setCompute(context, id, { cpuMillicores: 2000, memoryMib: 256, sleepAfterIdleSeconds: 0 }).ok)
  await idle()
  assert.equal(vm().observed.rebuild, 1)
  assert.equal(store.vms.recorded().disksMib, disksMib)
})

test('a rebuild that failed after its disk was made is not made again', async (t) => {
  const { host, source, rebuild, isSettled, later, noteOf } = await stoppedVm(t)
  host.storage.failNext('rebuildDisk', new HostFault('storage_failed', 'on purpose'), 'after')
  await rebuild(source)
  const made = noteOf()
  await later(60_000)
  assert.ok(isSettled())
  assert.equal(noteOf(), made)
})

test('a daemon that starts in the middle of a rebuild finishes it', async (t) => {
  const { host, source, rebuild, isSettled, stop, start, idle, vm } = await stoppedVm(t)
  host.storage.failNext('rebuildDisk', new HostFault('storage_failed', 'on purpose'))
  await rebuild(source)
  assert.ok(!isSettled())
  await stop()
  await start()
  await idle()
  assert.deepEqual([isSettled(), vm().observed.rebuild], [true, 1])
})

test('a stopped VM fetches another kernel at once, and shows why it cannot', async (t) => {
  const { context, host, id, source, idle, shown, isSettled } = await stoppedVm(t)
  assert.ok(setBoot(context, id, { kernel: { sha256, source: lost } }).ok)
  await idle()
  assert.deepEqual([shown(), isSettled()], ['stopped image_unavailable', false])
  assert.ok(setBoot(context, id, { kernel: { sha256, source } }).ok)
  await idle()
  assert.deepEqual([shown(), isSettled()], ['stopped', true])
  assert.ok(host.storage.imageFiles.has(sha256))
  host.storage.setInSight(false)
  assert.ok(setCompute(context, id, { cpuMillicores: 2000, memoryMib: 256, sleepAfterIdleSeconds: 0 }).ok)
  await idle()
  assert.ok(isSettled(), 'a later change does not wait for the pool')
})

test('a VM whose record is older than its last rebuild can be stopped and rebuilt', async (t) => {
  const { host, context, id, create, idle, vm, shown, later } = await reconcileStage(t)
  create()
  await idle()
  const disk = host.storage.disks.get(id)
  assert.ok(disk?.note !== undefined)
  host.storage.disks.set(id, { ...disk, note: { ...disk.note, rebuild: 1 } })
  await later(limits.resyncMs)
  assert.equal(shown(), 'failed disk_foreign')
  setPower(context, id, 'stopped')
  await idle()
  assert.equal(shown(), 'stopped')
  assert.equal(vm().generations.observed, vm().generations.desired)
  const source = host.storage.offer(content)
  assert.ok(rebuildVm(context, id, { sha256, source }).ok)
  await idle()
  assert.deepEqual([shown(), host.storage.disks.get(id)?.note?.rebuild], ['stopped', 2])
  setPower(context, id, 'running')
  await idle()
  assert.equal(shown(), 'running')
})

test('a VM whose record owes a rebuild that is older than its disk can be rebuilt', async (t) => {
  const { host, context, id, source, rebuild, noteOf, idle, vm, later } = await stoppedVm(t)
  const release = host.storage.holdNext('ensureImage')
  assert.ok(rebuildVm(context, id, { sha256, source }).ok)
  const disk = host.storage.disks.get(id)
  assert.ok(disk?.note !== undefined)
  host.storage.disks.set(id, { ...disk, note: { ...disk.note, rebuild: 2, rootfsSha256: sha256 } })
  release()
  await idle()
  await later(limits.resyncMs)
  await rebuild(source)
  assert.deepEqual([vm().observed.fault, noteOf()?.rebuild], [undefined, 3])
})
