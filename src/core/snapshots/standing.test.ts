import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { percentOf, standingOf } from './standing.ts'
import { phaseOf, workOf } from './work.ts'
import type { SnapshotPart, SnapshotRecord, SnapshotStage, UrlsAtHand } from './record.ts'
import type { SnapshotTally } from './standing.ts'

const STAGES = [
  'waiting',
  'capturing',
  'packing',
  'sending',
  'completing',
  'completed',
  'failed',
] as const satisfies readonly SnapshotStage[]

const record = (stage: SnapshotStage, imageBytes?: number): SnapshotRecord => ({
  id: 'nightly-1' as never,
  vmId: 'web-1' as never,
  vmCreatedAtMs: 1,
  stagingId: 'nightly-1.op-1' as never,
  operationId: 'op-1' as never,
  stage,
  partMib: 64,
  ...(imageBytes === undefined
    ? {}
    : { capture: { atMs: 1, imageBytes, consistency: 'crash', pausedMs: 0 } }),
  packed: { imageBytes: 0, storedBytes: 0 },
  staged: { bytes: 0, isWhole: true },
  completionSent: false,
  resumable: false,
  revision: 1,
  createdAtMs: 1,
  updatedAtMs: 1,
  lastActivityAtMs: 1,
})

/** Returns what a store would count. */
function tallyOf(parts: readonly SnapshotPart[], urls: UrlsAtHand): SnapshotTally {
  const sent = parts.filter(({ etag }) => etag !== undefined)
  const last = parts.at(-1)
  return {
    packed: parts.length,
    sent: sent.length,
    sentImageBytes: sent.reduce((sum, { imageBytes }) => sum + imageBytes, 0),
    storedBytes: last === undefined ? 0 : last.offsetBytes + last.bytes,
    lacking: parts
      .filter(({ etag, number }) => etag === undefined && !urls.parts.has(number))
      .map(({ number }) => number),
    hasCompleteUrl: urls.complete,
  }
}

test('the standing of a snapshot is the same by its tally as by all of its parts', () => {
  const part = fc.record({ sent: fc.boolean(), hasUrl: fc.boolean(), imageBytes: fc.nat(1000) })
  fc.assert(
    fc.property(fc.constantFrom(...STAGES), fc.array(part), fc.boolean(), (stage, drawn, complete) => {
      const parts = drawn.map(({ sent, imageBytes }, index): SnapshotPart => ({
        number: index + 1,
        offsetBytes: index * 64,
        bytes: 64,
        imageBytes,
        md5: '',
        sha256: '',
        ...(sent ? { etag: '"e"' } : {}),
      }))
      const numbers = drawn.flatMap(({ hasUrl }, index) => (hasUrl ? [index + 1] : []))
      const urls = { parts: new Set(numbers), complete, head: false }
      const snapshot = record(stage, 1_000_000)
      const work = workOf(snapshot, parts, urls)
      assert.deepEqual(standingOf(snapshot, tallyOf(parts, urls)), {
        phase: phaseOf(snapshot, work),
        lacks: work.lacks,
        doneBytes: parts.reduce(
          (sum, { etag, imageBytes }) => sum + (etag === undefined ? 0 : imageBytes),
          0,
        ),
        totalBytes: 1_000_000,
      })
    }),
  )
})

test('percent are whole, of the disk, and none while it is not captured', () => {
  assert.equal(percentOf({ doneBytes: 0, totalBytes: undefined }), 0)
  assert.equal(percentOf({ doneBytes: 199, totalBytes: 200 }), 99)
  assert.equal(percentOf({ doneBytes: 200, totalBytes: 200 }), 100)
  assert.equal(percentOf({ doneBytes: 0, totalBytes: 0 }), 0)
  assert.equal(
    standingOf(record('waiting'), tallyOf([], { parts: new Set(), complete: true, head: false })).totalBytes,
    undefined,
  )
})
