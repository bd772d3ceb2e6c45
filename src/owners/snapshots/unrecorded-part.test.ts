import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { bigDisk, imageIn, imageOf, MIB, noise, snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { HOUR_MS } from '../../lib/time-units.ts'
import type { TestContext } from 'node:test'

type Stage = Awaited<ReturnType<typeof snapshotStage>>

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

test('such a part is sent again by a fresh URL', async (t) => {
  const { upload, handOver, quiet, sent } = await unrecorded(t)
  upload.expireUrls()
  handOver({ firstPart: 1, parts: urlsOf(upload).parts })
  await quiet()
  assert.deepEqual(sent(), [4, 3])
})

test('a part that is sent while URLs of another upload come is sent again, to that upload', async (t) => {
  const { host, upload, take, handOver, quiet, shown } = await snapshotStage(t, { uploadsMax: 1 })
  const sent = host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  handOver(urlsOf(host.objectStore.openUpload('image-2')))
  sent()
  await quiet()
  assert.equal(shown(), 'completed')
  const object = host.objectStore.objects.get('image-2') ?? assert.fail('there is no object')
  assert.deepEqual(imageIn(object), imageOf(bigDisk('the disk')))
})

/** A snapshot beside a disk that takes no record once `hangs` is true, until `works`. */
async function slowDiskStage(t: TestContext, options: { readonly stagingQuotaMib?: number } = {}) {
  const disk = { hangs: (): boolean => false, works: Promise.withResolvers<void>() }
  const flush = async (): Promise<void> => {
    if (disk.hangs()) await disk.works.promise
  }
  const stage = await snapshotStage(t, { ...options, flush })
  const { quiet } = stage
  return {
    ...stage,
    disk,
    /** Fails if a call is made while the disk takes no record, or none afterwards. */
    waitsForDisk: async (calls: () => number): Promise<void> => {
      await quiet()
      const early = calls()
      // Before a check can fail: the daemon that is stopped then waits for this.
      disk.hangs = () => false
      disk.works.resolve()
      await quiet()
      assert.equal(early, 0)
      assert.ok(calls() > 0)
    },
  }
}

for (const [what, at, methodOf] of [
  ['the guest is frozen', 'capturing', ({ monitor }) => mock.method(monitor.agent, 'freeze')],
  ['the image is packed', 'packing', ({ staging }) => mock.method(staging, 'pack')],
  ['the upload is completed', 'completing', ({ objectStore }) => mock.method(objectStore, 'complete')],
] as readonly [string, string, (host: Stage['host']) => { readonly mock: { callCount(): number } }][])
  test(`a record on the disk shows that ${what} before it happens`, async (t) => {
    const { disk, waitsForDisk, host, find, upload, take } = await slowDiskStage(t)
    disk.hangs = () => find()?.stage === at
    const method = methodOf(host)
    take(urlsOf(upload))
    await waitsForDisk(() => method.mock.callCount())
  })

test('a part goes to a store only when its record is on the disk', async (t) => {
  const { disk, waitsForDisk, host, store, id, upload, take, handOver, quiet } = await slowDiskStage(t)
  disk.hangs = () => store.snapshots.parts(id).length > 0
  take({ firstPart: 1, parts: [] })
  await quiet()
  // The course looks at its record again, in which the first part is by now.
  handOver(urlsOf(upload))
  const put = mock.method(host.objectStore, 'putPart')
  await waitsForDisk(() => put.mock.callCount())
})

test('a part that does not stay is freed only when the disk says that it was sent', async (t) => {
  const { disk, waitsForDisk, host, store, vmId, id, upload, take } = await slowDiskStage(t, {
    stagingQuotaMib: 2,
  })
  host.diskContents.set(vmId, { content: noise('seven parts', 6.5 * MIB), sizeBytes: 7 * MIB })
  disk.hangs = () => store.snapshots.parts(id).some(({ etag }) => etag !== undefined)
  const discarded = mock.method(host.staging, 'discardPart')
  take(urlsOf(upload, 8))
  await waitsForDisk(() => discarded.mock.callCount())
})

test('staging that is given up is removed only when the disk says so', async (t) => {
  const { disk, waitsForDisk, host, clock, upload, take, quiet, shown, snap, after } = await slowDiskStage(t)
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'completed')
  disk.hangs = () => snap().staged.bytes === 0
  const removed = mock.method(host.staging, 'remove')
  clock.set(25 * HOUR_MS)
  await after(limits.stagingSweepMs)
  await waitsForDisk(() => removed.mock.callCount())
})
