import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import { limits } from '../../config/limits.ts'
import { abortable } from '../../lib/abortable.ts'
import type { SnapshotId, SnapshotUrls } from '../../core/snapshots/record.ts'
import type { FakeUpload } from '../../../test/fakes/fake-object-store.ts'

/** URLs of an upload at another store. */
const elsewhere = (upload: FakeUpload): SnapshotUrls => {
  const moved = (url: string): SignedUrl =>
    new SignedUrl(url.replace('store.example.net', 'slow.example.net'))
  return {
    firstPart: 1,
    parts: upload.partUrls(4).map(moved),
    complete: moved(upload.completeUrl),
    head: moved(upload.headUrl),
  }
}

test('a place that a slow store gives back goes to another store, however many snapshots the slow one has', async (t) => {
  const { host, take, quiet, shown } = await snapshotStage(t, { uploadsMax: 2 })
  const store = host.objectStore
  const putPart = store.putPart.bind(store)
  const slow: PromiseWithResolvers<void>[] = []
  mock.method(store, 'putPart', async (...args: Parameters<typeof putPart>) => {
    if (args[0].url.host === 'slow.example.net') {
      const held = Promise.withResolvers<void>()
      slow.push(held)
      await abortable(held.promise, args[1])
    }
    return putPart(...args)
  })
  const [first, second, other] = ['snap-1', 'snap-2', 'snap-3'].map((id) => id as SnapshotId)
  take(elsewhere(store.openUpload('image-1')), first)
  take(elsewhere(store.openUpload('image-2')), second)
  await quiet()
  assert.equal(slow.length, 2)
  take(urlsOf(store.openUpload('image-3')), other)
  await quiet()
  assert.equal(shown(other), 'sending')
  slow[0]?.resolve()
  await quiet()
  assert.deepEqual([shown(first), shown(second), shown(other)], ['sending', 'sending', 'completed'])
})

test('parts whose URLs are dropped while they wait for their turn are not sent', async (t) => {
  const { host, lines, upload, take, handOver, quiet, shown } = await snapshotStage(t, { uploadsMax: 1 })
  const first = host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  upload.expireUrls()
  first()
  await quiet()
  assert.equal(shown(), 'sending upload_urls_expired')
  assert.deepEqual(
    lines.filter(({ level }) => level === 'error'),
    [],
  )
  handOver(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'completed')
})

test('fresh URLs give a part all its tries again', async (t) => {
  const { host, vmId, upload, take, handOver, quiet, shown, after } = await snapshotStage(t)
  host.diskContents.set(vmId, { content: Buffer.from('of one part'), sizeBytes: 4096 })
  const few = limits.sendAttemptsMax - 1
  for (let round = 0; round < 2; round += 1) {
    for (let attempt = 0; attempt < few; attempt += 1)
      host.objectStore.answerNext('putPart', { kind: 'busy', because: 'it answered 503 (SlowDown)' })
    upload.expireUrls()
    if (round === 0) take(urlsOf(upload))
    else handOver(urlsOf(upload))
    await quiet()
    while (host.objectStore.requests.length < few * (round + 1)) {
      assert.equal(shown(), 'sending upload_busy')
      await after(limits.retryBackoffMsMax)
    }
    assert.equal(shown(), 'sending upload_busy')
  }
  await after(limits.retryBackoffMsMax)
  assert.equal(shown(), 'completed')
})
