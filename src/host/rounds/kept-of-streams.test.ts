import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { FrameWriter } from '../../core/migration/frames.ts'
import { KeptDigests, KeptOfVms, QuietStretches } from './kept-of-streams.ts'
import { streamChecks } from './stream-checks.ts'
import type { VmId } from '../../core/ids.ts'

const STEP = limits.roundDigestEveryBytes / 4
const FRAMES = 4 * (limits.roundDigestsMax + 10)

/** Writes holes from the end of one frame up to that of another. */
function write(writer: FrameWriter, from: number, to: number, kept?: KeptDigests): void {
  for (let offset = from; offset < to; offset += STEP) {
    writer.hole({ offset, length: STEP - 1 })
    kept?.note(offset + STEP, writer)
  }
}

test('a stream continues from the newest state before it, as often as it is cut, and its end is the same', () => {
  const kept = new KeptDigests()
  const writer = new FrameWriter(streamChecks)
  write(writer, 0, FRAMES * STEP, kept)
  const end = writer.end()
  for (const frame of [FRAMES, FRAMES - 1, FRAMES - 6, FRAMES]) {
    const from = frame * STEP
    const state = kept.before(from)
    assert.ok(state.end <= from && from - state.end < limits.roundDigestEveryBytes, `${frame}: ${state.end}`)
    write(state.writer, state.end, FRAMES * STEP)
    assert.deepEqual(state.writer.end(), end)
  }
})

test('only the newest states are kept; what comes before them is written from the beginning', () => {
  const kept = new KeptDigests()
  write(new FrameWriter(streamChecks), 0, FRAMES * STEP, kept)
  const oldest = FRAMES * STEP - (limits.roundDigestsMax - 1) * limits.roundDigestEveryBytes
  assert.equal(kept.before(oldest).end, oldest)
  assert.equal(kept.before(oldest - 1).end, 0)
})

test('only what is kept of the present file of a VM is used again', () => {
  let made = 0
  const kept = new KeptOfVms(() => (made += 1))
  const [web, db] = ['web-1' as VmId, 'db-1' as VmId]
  assert.deepEqual([kept.of(web, 'a'), kept.of(db, 'a'), kept.of(web, 'a')], [1, 2, 1])
  assert.deepEqual([kept.of(web, 'b'), kept.of(web, 'a'), kept.of(db, 'a')], [3, 4, 2])
  kept.forget(db)
  assert.deepEqual([kept.of(db, 'a'), kept.of(web, 'a')], [5, 4])
})

test('stretches that touch or overlap are one, whatever the order is in which they are found', () => {
  const quiet = new QuietStretches()
  quiet.note(40, 50)
  quiet.note(0, 10)
  quiet.note(10, 30)
  quiet.note(10, 20)
  quiet.note(40, 45)
  for (const [offset, end] of [
    [0, 30],
    [29, 30],
    [30, undefined],
    [40, 50],
    [50, undefined],
  ] as const)
    assert.equal(quiet.endOf(offset), end, `${offset}`)
})
