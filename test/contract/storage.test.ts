import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import type { Sha256, UserId, VmId } from '../../src/core/ids.ts'
import { FakeStorage } from '../fakes/fake-storage.ts'
import { imageKindsContract } from './image-kinds.contract.ts'
import { imageMovesContract } from './image-moves.contract.ts'
import { rebuildsContract } from './rebuilds.contract.ts'
import { storageContract } from './storage.contract.ts'
import type { StorageStage } from './storage.contract.ts'

async function stage(): Promise<StorageStage> {
  const storage = new FakeStorage()
  return {
    storage,
    userId: 200_001 as UserId,
    offer: (content) => storage.offer(content),
    setInSight: (inSight) => storage.setInSight(inSight),
  }
}

storageContract('fake storage', stage)
imageKindsContract('fake storage', stage)
rebuildsContract('fake storage', stage)
imageMovesContract('fake storage', stage)

test('fake storage: a held call waits until it is released, or aborted', async () => {
  const storage = new FakeStorage()
  const content = Buffer.from('kernel')
  const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
  const source = storage.offer(content)
  const controller = new AbortController()
  const reason = new Error('deleted meanwhile')

  storage.holdNext('ensureImage')
  const aborted = storage.ensureImage(sha256, source, controller.signal)
  controller.abort(reason)
  await assert.rejects(aborted, reason)

  const release = storage.holdNext('ensureImage')
  const held = storage.ensureImage(sha256, source, new AbortController().signal)
  const before = await storage.inspect('web-1' as VmId, [{ role: 'kernel', sha256 }])
  assert.deepEqual(before.missingImages, ['kernel'])
  release()
  await held
  assert.ok(storage.imageFiles.has(sha256))
})
