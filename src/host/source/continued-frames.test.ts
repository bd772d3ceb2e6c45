import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { FRAME_HEAD_BYTES, FrameWriter } from '../../core/migration/frames.ts'
import { err, ok } from '../../lib/result.ts'
import { StreamRefused } from '../../core/migration/stream-refused.ts'
import { streamChecks } from '../rounds/stream-checks.ts'
import { continuedFrames } from './continued-frames.ts'
import type { SourceRefusal } from '../../core/migration/departure.ts'
import type { SourceBytes } from './continued-frames.ts'

const BLOCK = 4096
const COUNT = 5

/** The stream of a disk of five blocks: frames in their order, and the end. */
const frames = ((): readonly Uint8Array[] => {
  const writer = new FrameWriter(streamChecks)
  const data = Array.from({ length: COUNT }, (_, index) => {
    const frame = new Uint8Array(FRAME_HEAD_BYTES + BLOCK).fill(index + 1)
    writer.finishData(index * BLOCK, frame)
    return frame
  })
  return [...data, writer.end()]
})()

/** The course of one stream: it is not opened, is cut after so many bytes, or is changed on its way. */
type Course = {
  readonly refused?: SourceRefusal
  readonly fault?: HostFault
  readonly cutAfter?: number
  readonly quietly?: true
  readonly damaged?: true
}

const cut = new HostFault('source_unreachable', 'cut')

/** Reads the frames of a source whose streams take these courses, one after the other. */
async function read(...courses: readonly Course[]) {
  const opened: number[] = []
  const pauses: number[] = []
  const streamOf = async function* (from: number, course: Course): SourceBytes {
    const bytes = Buffer.concat(frames.slice(from / BLOCK))
    const { damaged, cutAfter = bytes.length, quietly } = course
    if (damaged === true) bytes[bytes.length - 1]! ^= 1
    yield bytes.subarray(0, cutAfter)
    if (course.cutAfter !== undefined && quietly !== true) throw cut
  }
  const open = async (from: number) => {
    const course = courses[opened.push(from) - 1] ?? {}
    if (course.refused !== undefined) return err(course.refused)
    if (course.fault !== undefined) throw course.fault
    return ok(streamOf(from, course))
  }
  const first = await open(0)
  assert.ok(first.ok)
  const pause = async (number: number): Promise<void> => void pauses.push(number)
  const offsets: number[] = []
  const reading = (async () => {
    const options = { first: first.value, open, sizeBytes: COUNT * BLOCK, pause }
    for await (const { offset } of continuedFrames(options)) offsets.push(offset / BLOCK)
  })()
  const error = await reading.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return { offsets, opened: opened.map((from) => from / BLOCK), pauses, error }
}

const ALL = [0, 1, 2, 3, 4]
const FRAME = FRAME_HEAD_BYTES + BLOCK

test('a stream that is cut anywhere continues behind its last whole frame', async () => {
  for (const cutAfter of [0, 7, FRAME, FRAME + 1, 2 * FRAME + 30, 5 * FRAME, 5 * FRAME + 10]) {
    const { offsets, opened, error } = await read({ cutAfter })
    assert.equal(error, undefined)
    assert.deepEqual(offsets, ALL)
    assert.deepEqual(opened, [0, Math.floor(cutAfter / FRAME)], `cut after ${cutAfter}`)
  }
})

test('a stream that ends too early without an error is cut too', async () => {
  const { offsets, opened, error } = await read({ cutAfter: FRAME, quietly: true })
  assert.equal(error, undefined)
  assert.deepEqual([offsets, opened], [ALL, [0, 1]])
})

test('a stream that is cut behind its last byte is whole, also when it was cut before', async () => {
  const endBytes = frames.at(-1)!.length
  for (const courses of [
    [{ cutAfter: COUNT * FRAME + endBytes }],
    [{ cutAfter: 2 * FRAME }, { cutAfter: 3 * FRAME + endBytes }],
  ]) {
    const { offsets, opened, error } = await read(...courses)
    assert.equal(error, undefined)
    assert.deepEqual([offsets, opened.length], [ALL, courses.length])
  }
})

test('a source that is away for a while is asked again, with pauses that grow, until it continues', async () => {
  const { offsets, pauses, error } = await read(
    { cutAfter: 2 * FRAME },
    { fault: cut },
    { refused: 'busy' },
    { cutAfter: FRAME },
  )
  assert.equal(error, undefined)
  assert.deepEqual([offsets, pauses], [ALL, [1, 2, 3, 1]])
})

test('a fault of the source that may pass is waited out, and one that does not ends the stream at once', async () => {
  const passing = await read({ cutAfter: FRAME }, { fault: new HostFault('storage_failed', 'reading') })
  assert.deepEqual([passing.error, passing.offsets], [undefined, ALL])
  const lost = new HostFault('round_lost', 'reading')
  const lasting = await read({ cutAfter: FRAME }, { fault: lost })
  assert.deepEqual([lasting.error, lasting.opened.length], [lost, 2])
})

test('attempts in a row without a frame are bounded, and the last failure is thrown', async () => {
  const away = Array.from({ length: limits.streamAttemptsMax }, (): Course => ({ fault: cut }))
  const { offsets, opened, error } = await read({ cutAfter: FRAME }, ...away)
  assert.equal(error, cut)
  assert.deepEqual(offsets, [0])
  assert.equal(opened.length, 1 + limits.streamAttemptsMax)
})

test('a source that has decided meanwhile ends the stream at once, and its answer is known', async () => {
  for (const refused of ['withdrawn', 'released', 'not_yours', 'unknown'] as const) {
    const { opened, error } = await read({ cutAfter: FRAME }, { refused })
    assert.ok(error instanceof StreamRefused, String(error))
    assert.deepEqual([error.answer, opened.length], [refused, 2])
  }
})

test('a damaged stream ends it at once', async () => {
  for (const [last, words] of [[{ damaged: true }, /digest|damaged/]] as const) {
    const { opened, error } = await read({ cutAfter: FRAME }, last)
    assert.ok(error instanceof HostFault)
    assert.equal(error.code, 'source_refused')
    assert.match((error.cause as Error).message, words)
    assert.equal(opened.length, 2)
  }
})
