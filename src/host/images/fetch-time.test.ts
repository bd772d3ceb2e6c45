import assert from 'node:assert/strict'
import { test } from 'node:test'
import { errorChain } from '../../log/error-chain.ts'
import { FetchTime } from './fetch-time.ts'

const HOUR_MS = 3_600_000
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

test('a fetch that has ended is left alone', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const time = new FetchTime(HOUR_MS)
  time.end()
  t.mock.timers.tick(HOUR_MS)
  assert.ok(!time.signal.aborted)
})
