import assert from 'node:assert/strict'
import { test } from 'node:test'
import { errorChain } from '../../log/error-chain.ts'
import { FetchTime } from './fetch-time.ts'
import { HOUR_MS } from '../../lib/time-units.ts'

const MIB = 1024 ** 2
const GIB = 1024 ** 3

test('a fetch that keeps bringing enough has another hour, and one that does not has ended', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const time = new FetchTime(HOUR_MS)
  for (let hour = 0; hour < 5; hour++) {
    time.add(4 * GIB)
    t.mock.timers.tick(HOUR_MS)
    assert.ok(!time.signal.aborted, `after hour ${hour}`)
  }
  time.add(3 * GIB)
  t.mock.timers.tick(HOUR_MS)
  assert.ok(time.signal.aborted)
  assert.equal(errorChain(time.signal.reason), 'less than 3600 MiB came in 3600 s')
  time.end()
})

test('time in which this host stores what came counts against no source', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  let nowMs = 0
  const time = new FetchTime(HOUR_MS, () => nowMs)
  /** Lets an hour end in which a minute was spent on waiting for the source. */
  const hour = async (cameBytes: number): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const storing = time.storing(promise)
    nowMs += HOUR_MS - 60_000
    resolve()
    await storing
    time.add(cameBytes)
    nowMs += 60_000
    t.mock.timers.tick(HOUR_MS)
  }
  await hour(61 * MIB)
  assert.ok(!time.signal.aborted)
  const { promise, resolve } = Promise.withResolvers<void>()
  const storing = time.storing(promise)
  for (let hours = 0; hours < 3; hours++) {
    nowMs += HOUR_MS
    t.mock.timers.tick(HOUR_MS)
    assert.ok(!time.signal.aborted, `after hour ${hours} of storing`)
  }
  resolve()
  await storing
  await hour(59 * MIB)
  assert.equal(errorChain(time.signal.reason), 'less than 60 MiB came in 60 s')
  time.end()
})

test('a fetch that has ended is left alone', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const time = new FetchTime(HOUR_MS)
  time.end()
  t.mock.timers.tick(HOUR_MS)
  assert.ok(!time.signal.aborted)
})
