import assert from 'node:assert/strict'
import { test } from 'node:test'
import { snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { stopsBefore } from '../../../test/stops-before.ts'

const NO_URLS = { firstPart: 1, parts: [] }

test('a stop waits for what a snapshot does with its staging', async (t) => {
  const { host, take, quiet, stopSnapshots } = await snapshotStage(t)
  const end = host.staging.holdNext('removeClone')
  take(NO_URLS)
  await quiet()
  assert.equal(await stopsBefore(stopSnapshots, { settle: quiet, end }), false)
})

test('a stop waits for the removal of the staging of a deleted snapshot', async (t) => {
  const { host, take, drop, quiet, stopSnapshots, staged } = await snapshotStage(t)
  take(NO_URLS)
  await quiet()
  const end = host.staging.holdNext('remove')
  drop()
  await quiet()
  assert.equal(await stopsBefore(stopSnapshots, { settle: quiet, end }), false)
  assert.equal(await staged(), 0)
})

test('a stop leaves no timer of a snapshot that waits for its next try', async (t) => {
  const { host, clock, upload, take, quiet, shown, stop } = await snapshotStage(t)
  host.objectStore.answerNext('putPart', { kind: 'busy', because: 'it answered 503 (SlowDown)' })
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'sending upload_busy')
  await stop()
  assert.equal(clock.nextMs(), undefined)
})
