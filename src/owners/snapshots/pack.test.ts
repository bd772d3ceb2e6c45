import assert from 'node:assert/strict'
import { test } from 'node:test'
import { noise, MIB, snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { limits } from '../../config/limits.ts'
import { standingOf } from '../../core/snapshots/work.ts'
import { HostFault } from '../../core/errors.ts'
import type { SnapshotId } from '../../core/snapshots/record.ts'

const NO_URLS = { firstPart: 1, parts: [] }
/** Parts of the disk of the stage. */
const PARTS = 3

test('a pack that fails while it waits for room gives back the room that comes', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 1 })
  const { host, upload, take, handOver, quiet, shown, after } = stage
  const { staging } = host
  const pack = staging.pack.bind(staging)
  const failing = new AbortController()
  // Simulates a file system that fails while the part waits to be taken.
  staging.pack = (job, signal) => pack(job, AbortSignal.any([signal, failing.signal]))
  take(NO_URLS)
  await quiet()
  assert.equal(shown(), 'packing')
  staging.pack = pack
  failing.abort(new HostFault('storage_failed', 'on purpose'))
  await quiet()
  assert.equal(shown(), 'packing storage_failed')
  handOver(urlsOf(upload))
  await after(limits.retryBackoffMsMax)
  assert.equal(shown(), 'completed')
})

test('a pack that waits for room in staging does not keep others from packing', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 3 })
  const { host, store, vmId, upload, take, drop, quiet, shown } = stage
  host.diskContents.set(vmId, { content: noise('three parts', 2.5 * MIB), sizeBytes: 3 * MIB })
  take(NO_URLS)
  await quiet()
  assert.equal(shown(), 'sending')
  const abandoned = ['snap-2', 'snap-3'] as SnapshotId[]
  for (const id of abandoned) {
    take(NO_URLS, id)
    await quiet()
  }
  const kept = 'snap-4' as SnapshotId
  const release = host.objectStore.holdNext('putPart')
  take(urlsOf(upload), kept)
  await quiet()
  assert.equal(limits.packsMax, abandoned.length)
  assert.deepEqual(
    [...abandoned, kept].map((id) => store.snapshots.parts(id).length),
    [0, 0, 0],
  )
  drop()
  await quiet()
  assert.deepEqual(
    [...abandoned, kept].map((id) => store.snapshots.parts(id).length),
    [1, 1, 1],
  )
  release()
  await quiet()
  assert.notEqual(store.snapshots.parts(kept)[0]?.etag, undefined)
})

test('a snapshot that is deleted just when it gets what it waited for keeps nothing of that', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 3 })
  const { host, store, vmId, take, drop, quiet, shown, staged } = stage
  host.diskContents.set(vmId, { content: noise('three parts', 2.5 * MIB), sizeBytes: 3 * MIB })
  const [full, late] = ['full', 'late'] as [SnapshotId, SnapshotId]
  let packed = 0
  for (let turns = 0; packed === 0; turns += 1) {
    take(NO_URLS, full)
    await quiet()
    take(NO_URLS, late)
    await quiet()
    assert.equal(store.snapshots.parts(late).length, 0, 'it did not wait')
    const removed = host.staging.holdNext('remove')
    drop(full)
    await quiet()
    removed()
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve()
    packed = store.snapshots.parts(late).length
    drop(late)
    await quiet()
    assert.equal(await staged(), 0)
    assert.ok(turns < 1000)
  }
  host.diskContents.set(vmId, { content: noise('half a part', MIB / 2), sizeBytes: MIB })
  // Each but the last is in the middle of a pack.
  const ids = Array.from({ length: limits.packsMax }, (_, index) => `snap-${index}` as SnapshotId)
  for (const _ of ids.slice(1)) host.staging.holdNext('pack')
  for (const id of ids) take(NO_URLS, id)
  await quiet()
  assert.deepEqual(
    ids.map((id) => shown(id)),
    [...ids.slice(1).map(() => 'packing'), 'sending'],
  )
})

test('packs that waited for room take turns, and say so', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: limits.packsMax + 1 })
  const { host, vmId, take, drop, quiet, snap } = stage
  host.diskContents.set(vmId, { content: noise('parts', (limits.packsMax + 0.5) * MIB), sizeBytes: 4 * MIB })
  take(NO_URLS)
  await quiet()
  host.diskContents.set(vmId, { content: noise('half a part', MIB / 2), sizeBytes: MIB })
  const ids = Array.from({ length: limits.packsMax + 1 }, (_, index) => `late-${index}` as SnapshotId)
  for (const id of ids) {
    take(NO_URLS, id)
    await quiet()
  }
  const held = ids.map(() => host.staging.holdNext('pack'))
  drop()
  await quiet()
  const waits = ids.map((id) => snap(id).waitingFor)
  assert.deepEqual(waits, [...ids.slice(1).map(() => undefined), 'the packing of other snapshots'])
  for (const release of held) release()
  await quiet()
  assert.deepEqual(new Set(ids.map((id) => snap(id).stage)), new Set(['sending']))
})

test('a snapshot may have as many parts as a store takes, and not one more', async (t) => {
  for (const [beyond, end] of [
    [0, 'sending'],
    [1, 'failed upload_too_many_parts'],
  ] as const) {
    const { host, take, quiet, shown, staged } = await snapshotStage(t)
    const { staging } = host
    const pack = staging.pack.bind(staging)
    // Simulates the last parts of a large disk.
    const skipped = limits.partsMax - PARTS + beyond
    staging.pack = (job, signal) => {
      const onPart: typeof job.onPart = (part, next) =>
        job.onPart({ ...part, number: part.number + skipped }, next)
      return pack({ ...job, onPart }, signal)
    }
    take(NO_URLS)
    await quiet()
    assert.equal(shown(), end)
    assert.equal(await staged(), beyond === 0 ? 1 : 0)
  }
})

test('a snapshot that waits for room says so, on record and in the log, and no longer once it has room', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 3 })
  const { store, upload, take, drop, quiet, snap, lines, restart } = stage
  const late = 'snap-2' as SnapshotId
  take(NO_URLS)
  await quiet()
  const before = snap().lastActivityAtMs
  take(urlsOf(upload), late)
  await quiet()
  const waitingFor = (): unknown => standingOf(snap(late), store.snapshots.tally(snap(late))).waitingFor
  assert.equal(waitingFor(), 'room in staging')
  await restart()
  await quiet()
  assert.equal(waitingFor(), 'room in staging')
  assert.equal(snap().lastActivityAtMs, before)
  const said = lines.filter(({ message }) => message === 'packing delayed')
  assert.deepEqual(
    said.map((line) => [line['snapshot_id'], line['waiting_for']]),
    [[late, 'room in staging']],
  )
  drop()
  await quiet()
  assert.deepEqual([snap(late).stage, snap(late).waitingFor], ['completed', undefined])
})

test('packs that wait for room are bounded too, and those behind them say what they wait for', async (t) => {
  const many = limits.openPacksMax * 2
  const stage = await snapshotStage(t, { stagingQuotaMib: many })
  const { host, store, vmId, take, handOver, drop, quiet } = stage
  const disk = (mib: number): void =>
    void host.diskContents.set(vmId, { content: noise('parts', (mib - 0.5) * MIB), sizeBytes: mib * MIB })
  disk(many)
  take(NO_URLS)
  await quiet()
  disk(3)
  const { staging } = host
  const pack = staging.pack.bind(staging)
  let [open, openMax] = [0, 0]
  staging.pack = async (job, signal) => {
    open += 1
    openMax = Math.max(openMax, open)
    try {
      return await pack(job, signal)
    } finally {
      open -= 1
    }
  }
  const ids = Array.from({ length: many }, (_, index) => `snap-${index + 2}` as SnapshotId)
  for (const id of ids) {
    take(NO_URLS, id)
    await quiet()
  }
  const waits = ids.map((id) => store.snapshots.get(id)?.waitingFor)
  assert.deepEqual(
    waits.slice(0, limits.openPacksMax - 1),
    Array(limits.openPacksMax - 1).fill('room in staging'),
  )
  assert.equal(waits.at(-1), 'the packing of other snapshots')
  // The first one has filled staging, so the others begin together now.
  drop()
  await quiet()
  assert.ok(openMax > limits.packsMax && openMax <= limits.openPacksMax, `${openMax} were open`)
  for (const id of ids) handOver(urlsOf(host.objectStore.openUpload(id)), id)
  await quiet()
  const unpacked = ids.filter((id) => store.snapshots.get(id)?.sha256 === undefined)
  assert.deepEqual([unpacked, open], [[], 0])
})
