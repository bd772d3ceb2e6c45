import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { needsUrls, phaseOf, sendDelayMs, workOf, percentOf, standingOf } from './work.ts'
import { SNAPSHOT_STAGES } from './record.ts'
import type { SnapshotPart, SnapshotRecord, SnapshotStage, UrlsAtHand } from './record.ts'
import type { SnapshotWork, SnapshotTally } from './work.ts'
import * as fc from 'fast-check'

const recordIn = (stage: SnapshotStage, changes: Partial<SnapshotRecord> = {}): SnapshotRecord => ({
  id: 's-1' as SnapshotRecord['id'],
  vmId: 'web-1' as SnapshotRecord['vmId'],
  vmCreatedAtMs: 1,
  stagingId: 's-1.op-1' as SnapshotRecord['stagingId'],
  operationId: 'op-1' as SnapshotRecord['operationId'],
  stage,
  partMib: 5,
  packed: { imageBytes: 0, storedBytes: 0 },
  staged: { bytes: 0, isWhole: true },
  completionSent: false,
  resumable: false,
  revision: 1,
  createdAtMs: 1,
  updatedAtMs: 1,
  lastActivityAtMs: 1,
  ...changes,
})

const part = (number: number, etag?: string): SnapshotPart => ({
  number,
  offsetBytes: (number - 1) * 5,
  bytes: 5,
  imageBytes: 20,
  md5: '',
  sha256: '',
  ...(etag === undefined ? {} : { etag }),
})

const urls = (parts: readonly number[], ...ends: readonly ('complete' | 'head')[]): UrlsAtHand => ({
  parts: new Set(parts),
  complete: ends.includes('complete'),
  head: ends.includes('head'),
})

/** Describes the work in words. */
function said({ capture, pack, send, complete, lacks }: SnapshotWork): string {
  return [
    ...(capture ? ['capture'] : []),
    ...(pack ? ['pack'] : []),
    ...(send.length > 0 ? [`send ${send.map(({ number }) => number).join()}`] : []),
    ...(complete ? ['complete'] : []),
    ...(lacks.parts.length > 0 ? [`lacks ${lacks.parts.join()}`] : []),
    ...(lacks.complete ? ['lacks complete'] : []),
  ].join('; ')
}

test('a disk is captured first, and nothing else is done or lacking meanwhile', () => {
  for (const stage of ['waiting', 'capturing'] as const) {
    const work = workOf(recordIn(stage), [], urls([]))
    assert.equal(said(work), 'capture')
    assert.equal(needsUrls(work.lacks), false)
  }
})

test('parts are sent while others are packed, those that have a URL and were not sent, in order', () => {
  const parts = [part(1, 'e'), part(2), part(3), part(4)]
  const work = (...at: number[]) => workOf(recordIn('packing'), parts, urls(at))
  assert.equal(said(work(1, 2, 3, 4, 5)), 'pack; send 2,3,4')
  assert.equal(said(work(4, 2)), 'pack; send 2,4; lacks 3')
  assert.equal(said(work(1)), 'pack; lacks 2,3,4')
  assert.equal(said(workOf(recordIn('packing'), [], urls([]))), 'pack')
  // Everything packed was sent; more may come.
  assert.equal(said(workOf(recordIn('packing'), [part(1, 'e')], urls([], 'complete'))), 'pack')
})

test('parts that were sent are not needed to find what there is to do', () => {
  for (const stage of ['packing', 'sending', 'completing'] as const) {
    for (const parts of [[part(1, 'e'), part(2), part(3)], [part(1, 'e')]]) {
      const unsent = parts.filter(({ etag }) => etag === undefined)
      const at = urls([1, 2], 'complete')
      assert.deepEqual(workOf(recordIn(stage), unsent, at), workOf(recordIn(stage), parts, at))
    }
  }
})

test('URLs of parts that were sent are not lacking', () => {
  const work = workOf(recordIn('packing'), [part(1, 'e'), part(2)], urls([2]))
  assert.equal(needsUrls(work.lacks), false)
})

test('the upload is completed when all of it is packed and sent, and there is a URL for it', () => {
  const record = recordIn('sending')
  const waits = workOf(record, [part(1, 'e'), part(2)], urls([2], 'complete'))
  assert.equal(said(waits), 'send 2')
  const all = [part(1, 'e'), part(2, 'f')]
  assert.equal(said(workOf(record, all, urls([], 'complete'))), 'complete')
  const lacking = workOf(record, all, urls([], 'head'))
  assert.equal(said(lacking), 'lacks complete')
  assert.equal(needsUrls(lacking.lacks), true)
  assert.equal(phaseOf(record, lacking), 'awaiting_completion')
  assert.equal(phaseOf(record, waits), 'sending')
})

test('a completion that may have been sent is sent again, and no part ever is', () => {
  const record = recordIn('completing', { completionSent: true })
  assert.equal(said(workOf(record, [part(1, 'e'), part(2)], urls([1, 2], 'complete'))), 'complete')
  const lacking = workOf(record, [part(1, 'e')], urls([]))
  assert.equal(said(lacking), 'lacks complete')
  assert.equal(phaseOf(record, lacking), 'awaiting_completion')
})

test('a snapshot that has ended has nothing to do, and lacks nothing', () => {
  for (const stage of ['completed', 'failed'] as const) {
    const record = recordIn(stage, { resumable: stage === 'failed' })
    const work = workOf(record, [part(1, 'e'), part(2)], urls([1, 2], 'complete'))
    assert.equal(said(work), '')
    assert.equal(said(workOf(record, [part(1), part(2)], urls([]))), '')
    assert.equal(phaseOf(record, work), stage)
  }
})

test('delays double up to a cap, and never leave it, however many there were', () => {
  const delays = [1, 2, 3, 4, 100, 5000].map((attempts) => sendDelayMs(attempts, 0))
  const { retryBackoffMsMin: least, retryBackoffMsMax: most } = limits
  assert.deepEqual(delays, [least, 2 * least, 4 * least, 8 * least, most, most])
})

test('jitter only shortens, by no more than its share', () => {
  const [whole, shortest] = [sendDelayMs(3, 0), sendDelayMs(3, 1)]
  assert.equal(shortest, Math.round(whole * (1 - limits.retryJitter)))
  assert.ok(sendDelayMs(3, 0.5) > shortest && sendDelayMs(3, 0.5) < whole)
})

test('a store that wants more time gets it, up to a bound; one that wants less does not hurry us', () => {
  assert.equal(sendDelayMs(1, 0, 90_000), 90_000)
  assert.equal(sendDelayMs(1, 0, 10 * limits.retryAfterMsMax), limits.retryAfterMsMax)
  assert.equal(sendDelayMs(3, 0, 1), sendDelayMs(3, 0))
})

const record = (stage: SnapshotStage, imageBytes?: number): SnapshotRecord =>
  recordIn(
    stage,
    imageBytes === undefined ? {} : { capture: { atMs: 1, imageBytes, consistency: 'crash', pausedMs: 0 } },
  )

/** Returns what a store would count. */
function tallyOf(parts: readonly SnapshotPart[], atHand: UrlsAtHand): SnapshotTally {
  const sent = parts.filter(({ etag }) => etag !== undefined)
  const last = parts.at(-1)
  return {
    packed: parts.length,
    sent: sent.length,
    sentImageBytes: sent.reduce((sum, { imageBytes }) => sum + imageBytes, 0),
    storedBytes: last === undefined ? 0 : last.offsetBytes + last.bytes,
    lacking: parts
      .filter(({ etag, number }) => etag === undefined && !atHand.parts.has(number))
      .map(({ number }) => number),
    hasCompleteUrl: atHand.complete,
  }
}

test('the standing of a snapshot is the same by its tally as by all of its parts', () => {
  const drawnPart = fc.record({ sent: fc.boolean(), hasUrl: fc.boolean(), imageBytes: fc.nat(1000) })
  fc.assert(
    fc.property(
      fc.constantFrom(...SNAPSHOT_STAGES),
      fc.array(drawnPart),
      fc.boolean(),
      (stage, drawn, complete) => {
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
        const atHand = { parts: new Set(numbers), complete, head: false }
        const waitingFor = 'room in staging'
        const snapshot: SnapshotRecord = { ...record(stage, 1_000_000), waitingFor }
        const work = workOf(snapshot, parts, atHand)
        assert.deepEqual(standingOf(snapshot, tallyOf(parts, atHand)), {
          phase: phaseOf(snapshot, work),
          lacks: work.lacks,
          doneBytes: parts.reduce(
            (sum, { etag, imageBytes }) => sum + (etag === undefined ? 0 : imageBytes),
            0,
          ),
          totalBytes: 1_000_000,
          waitingFor: work.pack && work.send.length === 0 ? waitingFor : undefined,
        })
      },
    ),
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

test('a wait of the packing shows while no part can be sent, and not once all is packed', () => {
  const waitingFor = 'room in staging'
  const shown = (changes: Partial<SnapshotTally>, stage: SnapshotStage = 'packing'): unknown => {
    const tally = { packed: 0, sent: 0, sentImageBytes: 0, storedBytes: 0, lacking: [], hasCompleteUrl: true }
    return standingOf(recordIn(stage, { waitingFor }), { ...tally, ...changes }).waitingFor
  }
  assert.equal(shown({}), waitingFor)
  assert.equal(shown({ packed: 2, sent: 2 }), waitingFor)
  assert.equal(shown({ packed: 3, sent: 1, lacking: [2, 3] }), waitingFor)
  assert.equal(shown({ packed: 3, sent: 1, lacking: [2] }), undefined)
  assert.equal(shown({ packed: 2, sent: 2 }, 'failed'), undefined)
})
