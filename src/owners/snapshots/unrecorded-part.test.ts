import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { TestContext } from 'node:test'

/** Sends a snapshot of which one part was sent, and could not be recorded. */
async function unrecorded(t: TestContext) {
  const stage = await snapshotStage(t)
  const { store, host, upload, take, quiet, shown } = stage
  mock.method(store.snapshots, 'setEtag').mock.mockImplementationOnce((): never => {
    throw new HostFault('state_unwritable', 'on purpose')
  })
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'sending state_unwritable')
  /** Returns how often parts were sent, and how many there are. */
  const sent = (): readonly number[] => {
    const numbers = host.objectStore.requests.flatMap(({ number }) => number ?? [])
    return [numbers.length, new Set(numbers).size]
  }
  return { ...stage, sent }
}

test('a part that was sent, and could not be recorded, is recorded later and not sent again', async (t) => {
  const { shown, after, sent } = await unrecorded(t)
  await after(limits.retryBackoffMsMax)
  assert.equal(shown(), 'completed')
  assert.deepEqual(sent(), [3, 3])
})

test('such a part is sent again by a fresh URL, which may be of another upload', async (t) => {
  const { host, upload, handOver, quiet, sent } = await unrecorded(t)
  const { parts } = urlsOf(host.objectStore.openUpload(upload.key))
  handOver({ firstPart: 1, parts })
  await quiet()
  assert.deepEqual(sent(), [4, 3])
})
