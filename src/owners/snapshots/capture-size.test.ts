/** Sizes of disks that are captured: a guest may have taken over its monitor, which can make its file longer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bigDisk, MIB, snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { setDisk } from '../../commands/vm/reshape.ts'

test('a disk that is longer than its record says is not packed, and its clone is given back', async (t) => {
  const { host, vm, vmId, upload, take, quiet, shown, snap, staged } = await snapshotStage(t)
  const { sizeMib } = vm().desired.disk
  host.diskContents.set(vmId, { ...bigDisk('the disk'), sizeBytes: (sizeMib + 1) * MIB })
  take(urlsOf(upload))
  await quiet()
  assert.deepEqual([shown(), snap().resumable], ['failed storage_failed', false])
  assert.match(snap().trouble?.message ?? '', /the disk of VM \S+ has 65 MiB in the pool, .* gives it 64$/)
  assert.deepEqual([snap().capture, await staged()], [undefined, 0])
})

test('a disk of the size on record is captured, also while it grows, and with a part of a MiB more', async (t) => {
  const { context, host, vm, vmId, upload, take, quiet, shown } = await snapshotStage(t)
  const { sizeMib } = vm().desired.disk
  host.diskContents.set(vmId, { ...bigDisk('the disk'), sizeBytes: (sizeMib + 1) * MIB + 1 })
  assert.ok(setDisk(context, vmId, { sizeMib: sizeMib + 1 }).ok)
  take(urlsOf(upload, 80))
  await quiet()
  assert.equal(shown(), 'completed')
})
