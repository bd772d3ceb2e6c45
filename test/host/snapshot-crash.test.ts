/**
 * Snapshots whose daemon, store, URLs, pool or VM disappears in the middle: they continue from where they were, or
 * leave nothing.
 */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { afterEach, test } from 'node:test'
import { configure } from '../../lab/inside/configure.ts'
import { call, remove, settled } from '../../lab/inside/controller.ts'
import { accessLog, holdObjectStore } from '../../lab/inside/object-store.ts'
import {
  completed,
  completeSnapshot,
  deleteSnapshot,
  downloadedSha256,
  findSnapshot,
  handOver,
  PART_SIZE_MIB,
  sha256Of,
  snapshotIs,
  startSnapshot,
} from '../../lab/inside/snapshots.ts'
import { crashDaemon, sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { fillPool } from './fill-pool.ts'
import { diskOf, expired, makeStopped, POOL, snapshotStage, staged, stagingEmpty } from './snapshot-stage.ts'
import type { Upload } from '../../lab/inside/presign.ts'

const VM = 'crashed'
const COPY = `${POOL}/downloaded.raw`
const MIB = 1024 * 1024
/** More than the smallest staging, so that packing waits for a silent store. */
const RANDOM_MIB = 90
const STAGING_MIB_MIN = 64
/** Parts whose URLs are valid for the whole test, where others expire. */
const PARTS_IN_TIME = 4

const stage = snapshotStage({ make: () => makeStopped(VM, 256, RANDOM_MIB) })

/** Releases the store that a test holds, however the test ends. */
let release: () => Promise<void> = async () => {}
afterEach(async () => {
  await release()
  release = async () => {}
})

async function hold(): Promise<void> {
  release = await holdObjectStore()
}

async function letGoOn(): Promise<void> {
  await release()
  release = async () => {}
}

/** Checks that the object is whole, and that the store took every part in it once. */
async function assertWhole(id: string, upload: Upload): Promise<void> {
  const snapshot = await completed(id)
  assert.equal(await downloadedSha256(upload.getUrl, COPY), snapshot.sha256)
  assert.equal(snapshot.sha256, await sha256Of(diskOf(VM)))
  rmSync(COPY)
  await deleteSnapshot(id)
  await stagingEmpty()
}

/** Counts how often the store took each part of an upload, by number. */
async function timesTaken(upload: Upload, sinceMs: number): Promise<Map<number, number>> {
  const times = new Map<number, number>()
  for (const { method, path, status } of await accessLog(sinceMs)) {
    if (method !== 'PUT' || status !== 200 || !path.includes(upload.uploadId)) continue
    const number = Number(/[?&]partNumber=(\d+)/.exec(path)?.[1])
    times.set(number, (times.get(number) ?? 0) + 1)
  }
  return times
}

test('a daemon that is killed as soon as it has accepted a snapshot completes it', async () => {
  const upload = await stage.begin('at-once.img.zst')
  await startSnapshot('at-once', VM, upload)
  await crashDaemon()
  await assertWhole('at-once', upload)
})

/** Space of packed parts in the pool, and of a clone beside them. */
async function allocatedMib(): Promise<{ readonly packed: number; readonly all: number }> {
  const [only, ...more] = staged()
  assert.deepEqual(more, [], 'something else is staged')
  const directory = `${POOL}/staging/${only}`
  const sizeOf = async (path: string): Promise<number> => Number((await sh('du', '-sm', path)).split('\t')[0])
  return { packed: await sizeOf(`${directory}/packed.zst`), all: await sizeOf(directory) }
}

test('parts stay staged over a crash, without the clone; they go on DELETE, and when others need the room', async () => {
  const upload = await stage.begin('staged.img.zst')
  await startSnapshot('staged', VM, upload)
  const { stored_size_mib: stored = 0 } = await completed('staged')
  assert.ok(stored >= RANDOM_MIB)
  await crashDaemon()
  assert.equal((await findSnapshot('staged'))?.staged_mib, stored)
  const { packed, all } = await allocatedMib()
  assert.ok(packed >= stored - 1 && all <= packed + 2, JSON.stringify({ packed, all, stored }))

  const second = await stage.begin('second.img.zst')
  await startSnapshot('second', VM, second)
  await completed('second')
  assert.equal(staged().length, 2)
  await deleteSnapshot('second')
  await until('what is deleted is gone', async () => (staged().length === 1 ? true : undefined))

  // Staging goes only when more than the quota is needed; then all of it goes, and its record says so.
  await configure('snapshots', { staging_quota_mib: STAGING_MIB_MIN })
  await snapshotIs('staged', 'is staged no longer', ({ staged_mib: mib }) => mib === 0)
  await stagingEmpty()
  assert.equal((await findSnapshot('staged'))?.status, 'completed')
  await configure('snapshots', { staging_quota_mib: undefined })
  await assertWhole('staged', upload)
})

test('a daemon that is killed while it packs continues from the parts that it has', async () => {
  await configure('snapshots', { staging_quota_mib: STAGING_MIB_MIN })
  const upload = await stage.begin('packing.img.zst')
  await hold()
  await startSnapshot('packing', VM, upload)
  const stuck = await snapshotIs('packing', 'fills its staging', ({ progress, parts }) => {
    return (
      progress.phase === 'packing' && (parts.packed + 1) * PART_SIZE_MIB > STAGING_MIB_MIN - PART_SIZE_MIB
    )
  })
  await crashDaemon()
  const found = await findSnapshot('packing')
  assert.ok((found?.parts.packed ?? 0) >= stuck.parts.packed)
  assert.equal(found?.progress.phase, 'packing')
  await letGoOn()
  await assertWhole('packing', upload)
  await configure('snapshots', { staging_quota_mib: undefined })
})

test('a daemon that is killed while it sends continues with the unsent parts', async () => {
  await configure('snapshots', { upload_mbit_per_second: 100 })
  const sinceMs = Date.now()
  const upload = await stage.begin('sending.img.zst')
  await startSnapshot('sending', VM, upload)
  const { parts } = await snapshotIs('sending', 'has sent some', (one) => one.parts.sent >= 4)
  let before = new Map<number, number>()
  await crashDaemon(async () => (before = await timesTaken(upload, sinceMs)))
  await configure('snapshots', { upload_mbit_per_second: undefined })
  await completed('sending')
  // The store may note the last part a little later than the daemon.
  assert.ok(before.size >= parts.sent - 1)
  const again = await timesTaken(upload, sinceMs)
  // The store may have accepted the parts that were under way at the kill without the daemon's knowledge.
  const twice = [...again].filter(([, times]) => times > 1).map(([number]) => number)
  assert.ok(twice.length <= 4, `sent twice: ${twice.join()}`)
  assert.ok(again.size > before.size)
  await assertWhole('sending', upload)
})

test('a daemon that is killed while the store completes finds the upload complete', async () => {
  const upload = await stage.begin('completing.img.zst')
  await startSnapshot('completing', VM, upload, { complete: false })
  await snapshotIs('completing', 'waits for its completion', (one) => one.lacking_urls?.complete === true)
  await hold()
  await completeSnapshot('completing', upload)
  await snapshotIs('completing', 'is being completed', ({ progress }) => progress.phase === 'completing')
  // The store carries out the request of a daemon that is gone.
  await crashDaemon(letGoOn)
  await assertWhole('completing', upload)
})

test('URLs that expire in the middle are requested, and sent parts are not sent again', async () => {
  const sinceMs = Date.now()
  const upload = await stage.begin('expired.img.zst')
  const short = await stage.bucket.signAgain(upload, { expiresSeconds: 1 })
  await expired(short)
  // The first ones are valid to the end: how many parts are sent depends on no speed.
  const partUrls = upload.partUrls.map((url, index) => (index < PARTS_IN_TIME ? url : short.partUrls[index]!))
  await startSnapshot('expired', VM, { ...upload, partUrls })
  const waiting = await snapshotIs(
    'expired',
    'has sent what it can, and needs URLs',
    ({ needs_urls, parts }) => needs_urls && parts.sent === PARTS_IN_TIME,
  )
  assert.equal(waiting.status, 'uploading')
  const lacking = waiting.lacking_urls?.parts ?? []
  assert.ok(lacking.length > 0 && Math.min(...lacking) > PARTS_IN_TIME, `URLs lack for ${lacking.join()}`)
  const fresh = await stage.bucket.signAgain(upload)
  await handOver('expired', fresh)
  await completed('expired')
  const times = await timesTaken(upload, sinceMs)
  assert.equal(Math.max(...times.values()), 1, `parts were sent again: ${JSON.stringify([...times])}`)
  await assertWhole('expired', fresh)
})

test('a snapshot that is deleted in the middle leaves nothing in staging', async () => {
  const upload = await stage.begin('deleted.img.zst')
  await hold()
  await startSnapshot('deleted', VM, upload)
  await snapshotIs('deleted', 'is staged', ({ parts }) => parts.packed > 4)
  assert.equal(staged().length, 1)
  await deleteSnapshot('deleted')
  await stagingEmpty()
  assert.equal((await call('GET', '/v1/snapshots/deleted')).status, 404)
  await letGoOn()
  await stage.bucket.abort(upload)
})

test('a full pool fails a snapshot with a clear message, and nothing of it remains', async () => {
  const upload = await stage.begin('full.img.zst')
  const makeRoom = await fillPool(POOL)
  try {
    await startSnapshot('full', VM, upload)
    const { error, fault } = await snapshotIs('full', 'has failed', ({ status }) => status === 'failed')
    assert.match(error ?? '', /no space|no room|full/i)
    assert.equal(fault?.code, 'storage_full')
    await stagingEmpty()
  } finally {
    await makeRoom()
  }
  await deleteSnapshot('full')
  await settled(VM, 'stopped')
  await stage.bucket.abort(upload)
})

test('a snapshot whose VM is deleted continues to its end', async () => {
  const sha256 = await sha256Of(diskOf(VM))
  const upload = await stage.begin('orphan.img.zst')
  await hold()
  await startSnapshot('orphan', VM, upload)
  await snapshotIs('orphan', 'is captured', ({ parts }) => parts.packed > 0)
  await remove(VM)
  await letGoOn()
  const snapshot = await completed('orphan')
  assert.equal(snapshot.sha256, sha256)
  assert.equal(await downloadedSha256(upload.getUrl, COPY), sha256)
  rmSync(COPY)
  await deleteSnapshot('orphan')
  await stagingEmpty()
  const objectMib = ((await stage.bucket.sizeOf('orphan.img.zst')) ?? 0) / MIB
  assert.ok(Math.abs(objectMib - (snapshot.stored_size_mib ?? 0)) <= 1)
  assert.ok(!(await stage.bucket.listUploads()).includes(upload.uploadId))
  await until('nothing is staged', async () => (staged().length === 0 ? true : undefined))
})
