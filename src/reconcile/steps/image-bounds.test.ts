import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { reconcileStage } from '../../../test/reconcile-stage.ts'
import { setDisk } from '../../commands/vm/reshape.ts'
import type { Sha256 } from '../../core/ids.ts'

const MIB = 1024 * 1024

test('a rootfs image is bounded by the disk that it is for, and a kernel is not', async (t) => {
  const { host, context, id, vm, shown, create, idle } = await reconcileStage(t)
  const images = (['rootfs', 'kernel'] as const).map((role) => {
    const content = Buffer.alloc((role === 'rootfs' ? 2 : 3) * MIB, role)
    const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
    return { role, sha256, source: host.storage.offer(content) }
  })
  create({ image: { images }, disk: { sizeMib: 1 } })
  await idle()
  assert.equal(shown(), 'failed disk_smaller_than_image')
  assert.equal(vm().observed.fault?.step, 'image.ensure-fetched')
  setDisk(context, id, { sizeMib: 2 })
  await idle()
  assert.equal(shown(), 'running')
})
