import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreStage, packed, sha256Of, urlOf } from '../../../test/store-stage.ts'
import { InvariantError } from '../../lib/assert.ts'
import type { SnapshotId, SnapshotRecord, SnapshotStage, Trouble } from '../../core/snapshots/record.ts'
import type { OperationId, VmId } from '../../core/ids.ts'
import type { SnapshotChange } from './snapshot-table.ts'

const MIB = 1024 * 1024
const operationId = 'op-2' as OperationId

const capture = { atMs: 1500, imageBytes: 100, consistency: 'file_system', pausedMs: 12 } as const
const trouble: Trouble = { code: 'upload_busy', message: 'the store is busy', sinceMs: 1, attempt: 1 }

test('a snapshot is read back as it was, by the next process too', (t) => {
  const stage = new StoreStage(t)
  const urls = { firstPart: 3, parts: [urlOf('3'), urlOf('4')], complete: urlOf('c'), head: urlOf('h') }
  const id = stage.insertSnapshot('s-1', { urls })
  const { snapshots } = stage.store
  assert.deepEqual(
    { ...snapshots.get(id), revision: 0 },
    {
      id,
      vmId: 'web-1',
      vmCreatedAtMs: 1,
      stagingId: 's-1.op-1',
      operationId: 'op-1',
      stage: 'waiting',
      partMib: 5,
      packed: { imageBytes: 0, storedBytes: 0 },
      staged: { bytes: 0, isWhole: true },
      completionSent: false,
      resumable: false,
      revision: 0,
      createdAtMs: 1000,
      updatedAtMs: 1000,
      lastActivityAtMs: 1000,
    },
  )
  snapshots.advance(id, { stage: 'packing', capture, trouble, nowMs: 2000 })
  snapshots.addPart(id, ...packed(1), 2000)
  snapshots.addPart(id, ...packed(2), 3000)
  snapshots.setEtag(id, 2, { etag: '"e2"', url: urlOf('sent') }, 4000)
  const sent = { stage: 'completing', sha256: sha256Of('d'), completionSent: true, nowMs: 5000 } as const
  const record = snapshots.advance(id, sent)
  const parts = snapshots.parts(id)
  stage.reopen()
  const { snapshots: again } = stage.store
  assert.deepEqual(again.get(id), record)
  assert.deepEqual([record.capture, record.sha256, record.completionSent], [capture, sha256Of('d'), true])
  assert.deepEqual(record.packed, packed(2)[1])
  assert.deepEqual(again.parts(id), parts)
  assert.deepEqual(parts, [packed(1)[0], { ...packed(2)[0], etag: '"e2"' }])
  assert.deepEqual(again.urlsAtHand(id), { parts: new Set([3, 4]), complete: true, head: true })
  for (const [purpose, what] of [
    [3, '3'],
    [4, '4'],
    ['complete', 'c'],
    ['head', 'h'],
  ] as const) {
    assert.ok(again.url(id, purpose)?.equals(urlOf(what)), String(purpose))
  }
  assert.equal(again.url(id, 5), undefined)
})

test('every change raises the revision, and is announced once it is committed', (t) => {
  const stage = new StoreStage(t)
  const { store } = stage
  const reported: (readonly [SnapshotId, SnapshotRecord | undefined])[] = []
  store.onSnapshotChange((id) => reported.push([id, store.snapshots.get(id)]))
  let last = 0
  const raises = (what: string, change: () => unknown): void => {
    reported.length = 0
    store.transaction(() => {
      change()
      assert.deepEqual(reported, [], `${what}: reported before it was committed`)
    })
    assert.equal(reported.length, 1, what)
    const revision = reported[0]?.[1]?.revision ?? 0
    assert.ok(revision > last, `${what}: ${revision} after ${last}`)
    last = revision
  }
  const id = 's-1' as SnapshotId
  const { snapshots } = store
  raises('insert', () => stage.insertSnapshot(id))
  raises('advance', () => snapshots.advance(id, { stage: 'capturing', nowMs: 2 }))
  raises('addPart', () => snapshots.addPart(id, ...packed(1), 2))
  raises('setEtag', () => snapshots.setEtag(id, 1, { etag: 'e', url: urlOf('sent') }, 2))
  raises('touch', () => snapshots.touch(id, 2))
  raises('handOver', () =>
    snapshots.handOver(id, { firstPart: 1, parts: [urlOf('1')] }, { operationId, nowMs: 2 }),
  )
  raises('shed', () => snapshots.shed(id, 2))
  raises('dropUrls', () => snapshots.dropUrls(id, 2, 1))
  reported.length = 0
  snapshots.remove(id, 3000)
  assert.deepEqual(reported, [[id, undefined]])
})

test('a change that is rolled back is not announced', (t) => {
  const stage = new StoreStage(t)
  const { store } = stage
  const reported: SnapshotId[] = []
  store.onSnapshotChange((id) => reported.push(id))
  const attempt = (): void =>
    store.transaction(() => {
      stage.insertSnapshot('s-1')
      throw new Error('on purpose')
    })
  assert.throws(attempt, /on purpose/)
  assert.equal(store.snapshots.count(), 0)
  assert.deepEqual(reported, [])
})

test('lists are ordered, paged, and filtered by status and VM', (t) => {
  const stage = new StoreStage(t)
  const stages = ['completed', 'waiting', 'packing', 'completing', 'failed', 'sending', 'capturing'] as const
  for (const [index, to] of stages.entries()) {
    const vmId = (index % 2 === 0 ? 'even' : 'odd') as VmId
    const id = stage.insertSnapshot(`s-${9 - index}`, { vmId, nowMs: 1000 + index })
    stage.store.snapshots.advance(id, { stage: to, nowMs: 2000 })
  }
  const { snapshots } = stage.store
  const ids = (query: Partial<Parameters<typeof snapshots.list>[0]>): string =>
    snapshots
      .list({ limit: 99, ...query })
      .map(({ id }) => id.slice(2))
      .join('')
  assert.equal(ids({}), '3456789')
  assert.equal(ids({ limit: 2, after: 's-4' as SnapshotId }), '56')
  assert.equal(ids({ status: 'pending' }), '38')
  assert.equal(ids({ status: 'uploading' }), '467')
  assert.equal(ids({ status: 'completed' }), '9')
  assert.equal(ids({ status: 'failed' }), '5')
  assert.equal(ids({ vmId: 'odd' as VmId }), '468')
  assert.equal(ids({ vmId: 'odd' as VmId, status: 'uploading' }), '46')
  const unfinished = snapshots.unfinished().map(({ id }) => id.slice(2))
  assert.equal(unfinished.join(''), '87643', 'the oldest first')
  assert.equal(snapshots.count(), 7)
})

test('trouble stays until it is cleared or fresh URLs come, and is not activity', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const id = stage.insertSnapshot('s-1')
  const seen = (change: SnapshotChange): readonly unknown[] => {
    const record = snapshots.advance(id, change)
    return [record.stage, record.trouble, record.lastActivityAtMs]
  }
  assert.deepEqual(seen({ trouble, nowMs: 2000 }), ['waiting', trouble, 1000])
  assert.deepEqual(seen({ stage: 'capturing', nowMs: 3000 }), ['capturing', trouble, 3000])
  assert.deepEqual(seen({ trouble: null, nowMs: 4000 }), ['capturing', undefined, 3000])
  seen({ trouble, nowMs: 5000 })
  const handed = snapshots.handOver(id, { firstPart: 1, parts: [] }, { operationId, nowMs: 6000 })
  assert.deepEqual([handed.stage, handed.trouble, handed.lastActivityAtMs], ['capturing', undefined, 6000])
  assert.equal(snapshots.get(id)?.trouble, undefined)
})

for (const [where, changes, stage] of [
  ['before its disk was captured', {}, 'waiting'],
  ['while it was packed', { capture }, 'packing'],
  ['when all was packed', { capture, sha256: sha256Of('d') }, 'sending'],
  ['after its completion was sent', { capture, sha256: sha256Of('d'), completionSent: true }, 'sending'],
] as const) {
  test(`fresh URLs let a snapshot continue that failed ${where}, and keep what it has done`, (t) => {
    const store = new StoreStage(t)
    const { snapshots } = store.store
    const id = store.insertSnapshot('s-1')
    snapshots.addPart(id, ...packed(1), 1500)
    snapshots.advance(id, { stage: 'failed', resumable: true, trouble, nowMs: 2000, ...changes })
    const record = snapshots.handOver(id, { firstPart: 1, parts: [urlOf('1')] }, { operationId, nowMs: 3000 })
    assert.deepEqual([record.stage, record.resumable, record.trouble], [stage, false, undefined])
    assert.deepEqual(record.capture, 'capture' in changes ? capture : undefined)
    assert.equal(record.completionSent, 'completionSent' in changes)
    assert.deepEqual(record.packed, packed(1)[1])
    assert.deepEqual(snapshots.parts(id), [packed(1)[0]])
  })
}

test('URLs for one that has ended, parts that go back and etags of no part are bugs', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const id = stage.insertSnapshot('s-1')
  snapshots.addPart(id, ...packed(2), 1500)
  assert.throws(() => snapshots.addPart(id, ...packed(1), 1500), InvariantError)
  assert.throws(() => snapshots.setEtag(id, 7, { etag: 'e', url: urlOf('sent') }, 1500), InvariantError)
  for (const ended of ['failed', 'completed'] as const) {
    snapshots.advance(id, { stage: ended, nowMs: 2000 })
    assert.throws(
      () => snapshots.handOver(id, { firstPart: 1, parts: [] }, { operationId, nowMs: 3000 }),
      InvariantError,
    )
  }
  assert.throws(() => snapshots.touch('none' as SnapshotId, 1), InvariantError)
  assert.deepEqual(snapshots.parts(id), [packed(2)[0]])
})

test('packed parts stay staged when they are sent, until they are shed; those sent later are too', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const id = stage.insertSnapshot('s-1')
  const staged = (): readonly unknown[] => {
    const { staged: of, lastActivityAtMs } = snapshots.get(id) ?? assert.fail()
    return [of.bytes / MIB, of.isWhole, snapshots.sentStagedBytes() / MIB, lastActivityAtMs]
  }
  snapshots.addPart(id, ...packed(1), 1000)
  snapshots.addPart(id, ...packed(2), 1000)
  assert.deepEqual(staged(), [10, true, 0, 1000])
  assert.deepEqual(snapshots.sheddable(), [])
  snapshots.setEtag(id, 1, { etag: 'e', url: urlOf('sent') }, 2000)
  assert.deepEqual(staged(), [10, true, 5, 2000])
  assert.deepEqual(
    snapshots.sheddable().map((record) => record.id),
    [id],
  )
  snapshots.shed(id, 9000)
  assert.deepEqual(staged(), [5, false, 0, 2000], 'it does not count as activity')
  assert.deepEqual(snapshots.sheddable(), [])
  snapshots.addPart(id, ...packed(3), 3000)
  assert.deepEqual(staged(), [10, false, 0, 3000])
  stage.reopen()
  const { snapshots: again } = stage.store
  assert.equal(again.setEtag(id, 2, { etag: 'e', url: urlOf('sent') }, 4000).staged.bytes, 5 * MIB)
  assert.equal(again.setEtag(id, 3, { etag: 'e', url: urlOf('sent') }, 4000).staged.bytes, 0)
})

test('completed snapshots are kept in the order of their completion, until they are shed; failed ones are not', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const insert = (id: string, end: SnapshotStage, nowMs: number, changes = {}): SnapshotId => {
    stage.insertSnapshot(id)
    snapshots.addPart(id as SnapshotId, ...packed(1), 1500)
    snapshots.setEtag(id as SnapshotId, 1, { etag: 'e', url: urlOf('sent') }, 1500)
    return snapshots.advance(id as SnapshotId, { stage: end, nowMs, ...changes }).id
  }
  const late = insert('a', 'completed', 3000)
  const early = insert('b', 'completed', 2000)
  const goesOn = insert('c', 'failed', 1600, { resumable: true })
  const failed = insert('d', 'failed', 1600)
  const sending = insert('e', 'sending', 1700)
  const ids = (records: readonly SnapshotRecord[]): readonly SnapshotId[] => records.map(({ id }) => id)
  assert.deepEqual(ids(snapshots.kept()), [early, late])
  assert.deepEqual(ids(snapshots.sheddable()), [early, late, goesOn, sending])
  assert.equal(snapshots.get(failed)?.staged.bytes, 0)
  assert.equal(snapshots.sentStagedBytes(), 4 * 5 * MIB)
  assert.equal(snapshots.shed(early, 5000).staged.bytes, 0)
  assert.deepEqual([ids(snapshots.kept()), snapshots.sentStagedBytes()], [[late], 3 * 5 * MIB])
})

test('a part that the store has when the snapshot has failed for good takes nothing from staging', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const id = stage.insertSnapshot('s-1')
  snapshots.addPart(id, ...packed(1), 1000)
  assert.equal(snapshots.advance(id, { stage: 'failed', nowMs: 2000 }).staged.bytes, 0)
  assert.equal(snapshots.setEtag(id, 1, { etag: 'e', url: urlOf('sent') }, 3000).staged.bytes, 0)
  assert.equal(snapshots.sentStagedBytes(), 0)
})

test('a snapshot that is removed takes its parts and URLs along, and no others', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const urls = { firstPart: 1, parts: [urlOf('1')] }
  const [id, other] = [stage.insertSnapshot('s-1', { urls }), stage.insertSnapshot('s-2', { urls })]
  for (const each of [id, other]) snapshots.addPart(each, ...packed(1), 1500)
  snapshots.remove(id, 3000)
  snapshots.remove(id, 3000)
  assert.equal(snapshots.get(id), undefined)
  stage.insertSnapshot('s-1')
  assert.deepEqual([snapshots.parts(id).length, snapshots.urlsAtHand(id).parts.size], [0, 0])
  assert.deepEqual([snapshots.parts(other).length, snapshots.urlsAtHand(other).parts.size], [1, 1])
})
