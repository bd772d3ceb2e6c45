import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import { Store } from '../store.ts'
import type { TestContext } from 'node:test'
import type { SnapshotId } from '../../core/snapshots/record.ts'
import type { SnapshotTally } from '../../core/snapshots/work.ts'
import type { OperationId } from '../../core/ids.ts'

const operationId = 'op-2' as OperationId

const ID = 'nightly-1' as SnapshotId
const PART_BYTES = 1000
const IMAGE_BYTES = 7000

const urls = (firstPart: number, count: number) => ({
  firstPart,
  parts: Array.from(
    { length: count },
    (_, index) => new SignedUrl(`https://b.example/?${firstPart + index}`),
  ),
})

function stage(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'tally-'))
  const store = new Store(directory, { first: 600_000, count: 3 })
  t.after(() => {
    store.close()
    rmSync(directory, { recursive: true })
  })
  const insert = (id: SnapshotId): void => {
    store.snapshots.insert({
      id,
      vmId: 'web-1' as never,
      vmCreatedAtMs: 1,
      stagingId: `${id}.op-1` as never,
      partMib: 5,
      urls: urls(1, 0),
      operationId: 'op-1' as never,
      nowMs: 1,
    })
  }
  const pack = (number: number, bytes = PART_BYTES): void => {
    const part = { number, offsetBytes: (number - 1) * PART_BYTES, bytes, imageBytes: IMAGE_BYTES }
    const next = { imageBytes: number * IMAGE_BYTES, storedBytes: part.offsetBytes + bytes }
    store.snapshots.addPart(ID, { ...part, md5: 'm', sha256: 's' }, next, 1)
  }
  const tally = (): SnapshotTally => {
    const record = store.snapshots.get(ID)
    assert.ok(record !== undefined)
    return store.snapshots.tally(record)
  }
  insert(ID)
  return { snapshots: store.snapshots, insert, pack, tally }
}

test('a snapshot without parts has an empty tally', (t) => {
  assert.deepEqual(stage(t).tally(), {
    packed: 0,
    sent: 0,
    sentImageBytes: 0,
    storedBytes: 0,
    lacking: [],
    hasCompleteUrl: false,
  })
})

test('packed and sent parts are counted, and those without a URL are named', (t) => {
  const { snapshots, insert, pack, tally } = stage(t)
  // The parts of this snapshot must not be counted with the others.
  insert('nightly-2' as SnapshotId)
  for (const number of [1, 2, 3]) pack(number)
  pack(4, 10)
  snapshots.setEtag(ID, 2, { etag: '"e"', url: new SignedUrl('https://a.example/') }, 2)
  snapshots.handOver(
    ID,
    { ...urls(3, 1), complete: new SignedUrl('https://b.example/') },
    { operationId, nowMs: 2 },
  )
  assert.deepEqual(tally(), {
    packed: 4,
    sent: 1,
    sentImageBytes: IMAGE_BYTES,
    storedBytes: 3 * PART_BYTES + 10,
    lacking: [1, 4],
    hasCompleteUrl: true,
  })
  snapshots.dropUrls(ID, 3, 'complete')
  assert.deepEqual([tally().lacking, tally().hasCompleteUrl], [[1, 3, 4], false])
})

test('no more parts without a URL are named than one answer holds', (t) => {
  const { pack, tally } = stage(t)
  for (let number = 1; number <= limits.lackingPartsShown + 1; number += 1) pack(number)
  assert.equal(tally().lacking.length, limits.lackingPartsShown)
})

test('of a completed one all is sent, whatever the number of parts', (t) => {
  const { snapshots, pack, tally } = stage(t)
  const capture = { atMs: 1, imageBytes: 2 * IMAGE_BYTES, consistency: 'crash', pausedMs: 0 } as const
  snapshots.advance(ID, { stage: 'packing', capture, nowMs: 1 })
  for (const number of [1, 2]) {
    pack(number)
    snapshots.setEtag(ID, number, { etag: '"e"', url: new SignedUrl('https://a.example/') }, 2)
  }
  const before = tally()
  snapshots.advance(ID, { stage: 'completed', nowMs: 3 })
  assert.deepEqual(tally(), before)
  assert.equal(before.sentImageBytes, 2 * IMAGE_BYTES)
})
