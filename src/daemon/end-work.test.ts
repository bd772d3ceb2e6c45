import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordingLog } from '../../test/recording-log.ts'
import { endWork } from './end-work.ts'

const BOUND_MS = 20

test('a stop waits for all work, and logs nothing if it ends in time', async () => {
  const { log, lines } = recordingLog()
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let over = false
  const stop = endWork({ first: first.promise, second: second.promise, absent: undefined }, 60_000, log).then(
    () => (over = true),
  )
  first.resolve()
  await first.promise
  await new Promise(setImmediate)
  assert.equal(over, false)
  second.resolve()
  await stop
  assert.deepEqual(lines, [])
})

test('a stop waits no longer than its bound, and names what still runs', async () => {
  const { log, lines } = recordingLog()
  const startedAt = performance.now()
  await endWork({ done: Promise.resolve(), stuck: new Promise(() => {}) }, BOUND_MS, log)
  // Timers of Node may fire up to a millisecond early.
  assert.ok(performance.now() - startedAt >= BOUND_MS - 1)
  assert.deepEqual(
    lines.map(({ level, under_way, bound_ms }) => ({ level, under_way, bound_ms })),
    [{ level: 'warn', under_way: ['stuck'], bound_ms: BOUND_MS }],
  )
})

test('work that fails to end is named, and keeps no other from ending', async () => {
  const { log, lines } = recordingLog()
  const other = Promise.withResolvers<void>()
  const stop = endWork({ broken: Promise.reject(new Error('no way')), other: other.promise }, 60_000, log)
  await new Promise(setImmediate)
  other.resolve()
  await stop
  assert.deepEqual(
    lines.map(({ level, work, reason }) => ({ level, work, reason })),
    [{ level: 'error', work: 'broken', reason: 'no way' }],
  )
})
