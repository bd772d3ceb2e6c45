import assert from 'node:assert/strict'
import { readFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { StoreStage, packed, urlOf } from '../../../test/store-stage.ts'
import { limits } from '../../config/limits.ts'
import type { SnapshotId, SnapshotUrls } from '../../core/snapshots/record.ts'
import type { SignedUrl } from '../../core/outbound/signed-url.ts'
import type { OperationId } from '../../core/ids.ts'

const operationId = 'op-2' as OperationId

/** Returns the files of the state directory that contain a word anywhere. */
const filesWith = ({ directory }: StoreStage, word: string): string[] =>
  readdirSync(directory).filter((name) => readFileSync(join(directory, name)).includes(word))

const canaryOf = (id: string): string => `canary-${id}-yranac`

/** Returns a generator of numbers from 0 up to a bound, the same ones in each run. */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((state / 2 ** 31) * below)
  }
}

/** Returns URLs of many lengths, some longer than a database page, with the canary at both ends. */
function urlsWith(canary: string, random: (below: number) => number): SnapshotUrls {
  const url = (): SignedUrl => {
    const length = random(4) === 0 ? random(6000) : random(400)
    return urlOf(`${canary}${'x'.repeat(length)}${canary}`)
  }
  return {
    firstPart: 1 + random(20),
    parts: Array.from({ length: random(50) }, url),
    complete: url(),
    head: url(),
  }
}

for (const seed of [1, 2, 3, 4, 5, 6]) {
  test(`of a snapshot that has ended no byte of a URL is left, whatever came before and after (seed ${seed})`, (t) => {
    const stage = new StoreStage(t)
    const { snapshots } = stage.store
    const random = numbers(seed)
    const [alive, ended] = [new Set<SnapshotId>(), new Set<SnapshotId>()]
    const urlsOf = (id: string): SnapshotUrls => urlsWith(canaryOf(id), random)
    const ends = [
      (id: SnapshotId) => snapshots.advance(id, { stage: 'completed', nowMs: 2000 }),
      (id: SnapshotId) => snapshots.advance(id, { stage: 'failed', nowMs: 2000 }),
      (id: SnapshotId) => snapshots.dropUrls(id, 2000, 'complete'),
      (id: SnapshotId) => snapshots.remove(id, 3000),
    ]
    for (let step = 0; step < 150; step += 1) {
      const id = [...alive][random(alive.size)]
      const what = random(10)
      if (what < 4 || id === undefined) {
        const name = `s-${step}`
        alive.add(stage.insertSnapshot(name, { urls: urlsOf(name) }))
      } else if (what < 7) {
        snapshots.handOver(id, urlsOf(id), { operationId, nowMs: 1500 })
      } else {
        ends[random(ends.length)]?.(id)
        alive.delete(id)
        ended.add(id)
        assert.deepEqual(filesWith(stage, canaryOf(id)), [], `${id} at step ${step}`)
      }
    }
    assert.ok(alive.size > 0 && ended.size > 5)
    for (const id of ended) assert.deepEqual(filesWith(stage, canaryOf(id)), [], `${id} at the end`)
    for (const id of alive) assert.notDeepEqual(filesWith(stage, canaryOf(id)), [], `${id} has lost its own`)
    stage.reopen()
    for (const id of ended) assert.deepEqual(filesWith(stage, canaryOf(id)), [], `${id} after a restart`)
  })
}

test('a URL that was sent to an end is gone even if a reader blocked its removal, once the reader is gone', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertSnapshot('s-1', { urls: urlsWith(canaryOf('s-1'), numbers(1)) })
  const reader = new DatabaseSync(`${stage.directory}/vmhostd.db`, { readOnly: true })
  reader.exec('BEGIN')
  reader.prepare('SELECT count(*) FROM snapshot_urls').get()
  stage.store.snapshots.advance(id, { stage: 'completed', nowMs: 2000 })
  assert.notDeepEqual(filesWith(stage, canaryOf(id)), [], 'it did not stand in the way')
  reader.exec('COMMIT')
  reader.close()
  const laterMs = performance.now() + limits.stateRetryMs
  t.mock.method(performance, 'now', () => laterMs)
  stage.insertSnapshot('s-2')
  assert.deepEqual(filesWith(stage, canaryOf(id)), [])
})

test('a URL that a process left in the log when it ended too early is gone when the next one starts', (t) => {
  const stage = new StoreStage(t)
  const keep = new DatabaseSync(`${stage.directory}/vmhostd.db`, { readOnly: true })
  keep.exec('BEGIN')
  keep.prepare('SELECT count(*) FROM snapshot_urls').get()
  const id = stage.insertSnapshot('s-1', { urls: urlsWith(canaryOf('s-1'), numbers(1)) })
  stage.store.snapshots.remove(id, 3000)
  // The last connection that closes the database empties the log; this connection is not the last.
  stage.reopen(() => {
    assert.notDeepEqual(filesWith(stage, canaryOf(id)), [])
    keep.exec('COMMIT')
  })
  assert.deepEqual(filesWith(stage, canaryOf(id)), [])
  keep.close()
})

test('a failed snapshot that may continue keeps its URLs until it is given up', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const id = stage.insertSnapshot('s-1', { urls: { firstPart: 1, parts: [urlOf('1'), urlOf('2')] } })
  snapshots.advance(id, { stage: 'failed', resumable: true, nowMs: 2000 })
  assert.deepEqual(snapshots.urlsAtHand(id), { parts: new Set([1, 2]), complete: false, head: false })
  snapshots.advance(id, { resumable: false, nowMs: 3000 })
  assert.deepEqual(snapshots.urlsAtHand(id), { parts: new Set(), complete: false, head: false })
})

test('fresh URLs replace those for the same parts, and leave the others', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const id = stage.insertSnapshot('s-1', { urls: { firstPart: 1, parts: [urlOf('1'), urlOf('2')] } })
  snapshots.handOver(
    id,
    { firstPart: 2, parts: [urlOf('2b')], complete: urlOf('c') },
    { operationId, nowMs: 3000 },
  )
  assert.deepEqual(snapshots.urlsAtHand(id), { parts: new Set([1, 2]), complete: true, head: false })
  assert.ok(snapshots.url(id, 1)?.equals(urlOf('1')))
  assert.ok(snapshots.url(id, 2)?.equals(urlOf('2b')))
})

test('URLs that came with a refused one, or before, are dropped; newer ones stay', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const [old, fresh] = ['canary-old-yranac', 'canary-fresh-yranac']
  const id = stage.insertSnapshot('s-1', {
    urls: { firstPart: 1, parts: [urlOf(old), urlOf(old)], complete: urlOf(old) },
  })
  // A URL that is handed over again keeps its age.
  snapshots.handOver(
    id,
    { firstPart: 2, parts: [urlOf(old), urlOf(fresh)], complete: urlOf(fresh) },
    { operationId, nowMs: 1500 },
  )
  snapshots.dropUrls(id, 2000, 1)
  assert.deepEqual(snapshots.urlsAtHand(id), { parts: new Set([3]), complete: true, head: false })
  assert.ok(snapshots.url(id, 3)?.equals(urlOf(fresh)) && snapshots.url(id, 'complete')?.equals(urlOf(fresh)))
  assert.deepEqual(filesWith(stage, old), [])
  snapshots.dropUrls(id, 2500, 1)
  assert.equal(snapshots.urlsAtHand(id).parts.size, 1, 'there is none that could have been refused')
  snapshots.dropUrls(id, 3000, 3)
  assert.deepEqual(snapshots.urlsAtHand(id), { parts: new Set(), complete: false, head: false })
  assert.deepEqual(filesWith(stage, fresh), [])
})

test('a URL for a part that was sent is not kept', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const id = stage.insertSnapshot('s-1')
  snapshots.addPart(id, ...packed(1), 1500)
  snapshots.setEtag(id, 1, { etag: '"e"', url: urlOf('sent') }, 1600)
  snapshots.handOver(
    id,
    { firstPart: 1, parts: [urlOf('canary-sent'), urlOf('2')] },
    { operationId, nowMs: 2000 },
  )
  assert.deepEqual(snapshots.urlsAtHand(id).parts, new Set([2]))
  assert.deepEqual(filesWith(stage, 'canary-sent'), [])
})

test('URLs on record are counted in bytes, over all snapshots', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const bytes = Buffer.byteLength('https://store.example/key?1')
  const urls = { firstPart: 1, parts: [urlOf('1'), urlOf('2')] }
  const [id] = [stage.insertSnapshot('s-1', { urls }), stage.insertSnapshot('s-2', { urls })]
  snapshots.handOver(id, { firstPart: 2, parts: [urlOf('2222')] }, { operationId, nowMs: 2000 })
  assert.equal(snapshots.urlBytes(), 4 * bytes + 3)
  snapshots.remove(id, 3000)
  assert.equal(snapshots.urlBytes(), 2 * bytes)
})

test('URLs that a transaction rolled back can be handed over again', (t) => {
  const stage = new StoreStage(t)
  const { store } = stage
  const id = stage.insertSnapshot('s-1')
  const urls = { firstPart: 1, parts: [urlOf('1')] }
  const attempt = (): void =>
    store.transaction(() => {
      store.snapshots.handOver(id, urls, { operationId, nowMs: 2000 })
      throw new Error('on purpose')
    })
  assert.throws(attempt, /on purpose/)
  assert.equal(store.snapshots.url(id, 1), undefined)
  store.snapshots.handOver(id, urls, { operationId, nowMs: 2000 })
  assert.ok(store.snapshots.url(id, 1)?.equals(urlOf('1')))
})

test('dropping the URLs of one snapshot leaves those of others, and its parts', (t) => {
  const stage = new StoreStage(t)
  const { snapshots } = stage.store
  const urls = { firstPart: 1, parts: [urlOf('1')], complete: urlOf('c') }
  const [id, other] = [stage.insertSnapshot('s-1', { urls }), stage.insertSnapshot('s-2', { urls })]
  snapshots.addPart(id, ...packed(1), 1500)
  snapshots.dropUrls(id, 2000, 'complete')
  assert.deepEqual(snapshots.urlsAtHand(id), { parts: new Set(), complete: false, head: false })
  assert.ok(snapshots.url(other, 1)?.equals(urlOf('1')))
  assert.ok(snapshots.url(other, 'complete')?.equals(urlOf('c')))
  assert.equal(snapshots.parts(id).length, 1)
})

test('no file of the state directory is readable by others', (t) => {
  const stage = new StoreStage(t)
  stage.insertSnapshot('s-1', { urls: { firstPart: 1, parts: [urlOf('1')] } })
  const files = readdirSync(stage.directory)
  for (const suffix of ['', '-wal', '-shm']) assert.ok(files.includes(`vmhostd.db${suffix}`), files.join())
  for (const name of files) {
    if (name.startsWith('vmhostd.db'))
      assert.equal(statSync(join(stage.directory, name)).mode & 0o777, 0o600, name)
  }
})

test('what is committed after the log was emptied is in the log, which is the same file', async (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertSnapshot('s-1', { urls: { firstPart: 1, parts: [urlOf('1')] } })
  await stage.store.flushed()
  const log = `${stage.directory}/vmhostd.db-wal`
  const { ino } = statSync(log)
  stage.store.snapshots.advance(id, { stage: 'completed', nowMs: 2000 })
  assert.equal(statSync(log).size, 0)
  stage.insertSnapshot('s-2')
  await stage.store.flushed()
  assert.equal(statSync(log).ino, ino)
  assert.ok(statSync(log).size > 0)
})
