import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bigDisk, imageIn, imageOf, snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { limits } from '../../config/limits.ts'

test('a part that the store got damaged is sent again, as long as it is whole in staging', async (t) => {
  const damaged = { kind: 'damaged', because: 'it answered 400 (BadDigest)' } as const
  const { host, upload, take, quiet, shown, after } = await snapshotStage(t)
  host.objectStore.answerNext('putPart', damaged)
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'sending upload_busy')
  await after(limits.retryBackoffMsMin)
  assert.equal(shown(), 'completed')
  const object = host.objectStore.objects.get(upload.key)
  assert.deepEqual(imageIn(object ?? Buffer.alloc(0)), imageOf(bigDisk('the disk')))
})

test('a part that is damaged in staging fails the snapshot for good, at once', async (t) => {
  const { host, upload, take, quiet, shown, snap, staged } = await snapshotStage(t, { uploadsMax: 1 })
  const release = host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  host.staging.damagePacked(snap().stagingId, 1000)
  release()
  await quiet()
  assert.deepEqual([shown(), snap().resumable, await staged()], ['failed staging_lost', false, 0])
  assert.match(snap().trouble?.message ?? '', /^part 1 is damaged in staging: it answered 400 \(BadDigest\)$/)
})
