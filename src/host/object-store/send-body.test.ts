import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import type { ClientRequest } from 'node:http'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import type { PartBody } from '../../ports/object-store.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { BandwidthLimit, Patience } from './transfer-limits.ts'
import { sendBody } from './send-body.ts'

const never = new AbortController().signal
const bytes = Buffer.alloc(4 * limits.sendChunkBytes)
const body: PartBody = {
  bytes: bytes.length,
  async *chunks() {
    yield bytes
  },
}

type Written = (error?: Error | null) => void

/** Makes a request that handles each piece as the test wants. */
function requestThat(takes: (piece: Uint8Array, written: Written) => void): ClientRequest {
  return Object.assign(new EventEmitter(), { write: takes, end: takes }) as unknown as ClientRequest
}

function sendingOn(clock: FakeClock) {
  const patience = new Patience({ totalMs: 3_600_000, stallMs: 30_000 }, clock, never)
  return { body, limit: new BandwidthLimit(0, clock), patience, onSent: () => undefined }
}

test('between two pieces there is time to read an answer', async () => {
  const turns: number[] = []
  let turn = 0
  const request = requestThat((_, written) => {
    turns.push(turn)
    setImmediate(() => turn++)
    written()
  })
  await sendBody(request, sendingOn(new FakeClock()), never)
  assert.deepEqual(turns, [0, 1, 2, 3])
})

test('an answer that comes while a piece is sent ends the sending, and is awaited with a bound', async () => {
  const clock = new FakeClock()
  const stop = new AbortController()
  let pieces = 0
  const request = requestThat((_, written) => {
    pieces++
    stop.abort()
    written()
  })
  await sendBody(request, sendingOn(clock), stop.signal)
  assert.equal(pieces, 1)
  assert.equal(clock.nextMs(), 30_000)
})

test('a piece that is never taken, on a connection that closes, ends the sending', async () => {
  const request = requestThat(() => setImmediate(() => request.emit('close')))
  await sendBody(request, sendingOn(new FakeClock()), never)
  assert.equal(request.listenerCount('close'), 0)
})

test('time that our own limit takes is not taken from the store', async () => {
  const clock = new FakeClock()
  const totalMs = 1000
  const patience = new Patience({ totalMs, stallMs: 30_000 }, clock, never)
  // A body of four pieces takes some 200 s at this rate.
  const limit = new BandwidthLimit(0.01, clock)
  const request = requestThat((_, written) => written())
  const sending = sendBody(request, { body, limit, patience, onSent: () => undefined }, patience.signal)
  const sent = sending.then(() => 'sent')
  const nextTurn = async (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))
  while ((await Promise.race([sent, nextTurn()])) !== 'sent' && !patience.signal.aborted) clock.advance(100)
  assert.ok(!patience.signal.aborted)
  assert.ok(clock.monotonicMs() > 10 * totalMs)
  // What the store takes still has an end.
  clock.advance(clock.monotonicMs() + totalMs)
  assert.ok(patience.signal.aborted)
  patience.end()
})
