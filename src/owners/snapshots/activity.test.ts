import assert from 'node:assert/strict'
import { test } from 'node:test'
import { snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { limits } from '../../config/limits.ts'

test('a part that is being sent writes its activity to the records only now and then', async (t) => {
  const { host, store, clock, upload, take, quiet, shown } = await snapshotStage(t, { uploadsMax: 1 })
  const touches = t.mock.method(store.snapshots, 'touch')
  const { objectStore } = host
  const putPart = objectStore.putPart.bind(objectStore)
  const counts: number[] = []
  const slowly: typeof putPart = async (part, signal) => {
    for (const ms of [limits.snapshotActivityMs - 1, 1, 0, limits.snapshotActivityMs - 1, 1]) {
      clock.advance(ms)
      part.onSent?.(1)
      counts.push(touches.mock.callCount())
    }
    return putPart(part, signal)
  }
  t.mock.method(objectStore, 'putPart').mock.mockImplementationOnce(slowly)
  take(urlsOf(upload))
  await quiet()
  assert.deepEqual(counts, [0, 1, 1, 1, 2])
  assert.equal(shown(), 'completed')
})
