import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { recordOf } from '../../../test/record.ts'
import { firstLookDelayMs, nextFault, resyncDelayMs, retryDelayMs } from './retry.ts'
import type { Failure } from './retry.ts'

const failure: Failure = {
  step: 'network.ensure-tap',
  code: 'network_failed',
  retry: 'backoff',
  message: 'no',
}
const at = (nowMs: number) => ({ nowMs, random: 0 })

test('the delay doubles from its minimum to its cap and stays there', () => {
  const delays = [1, 2, 3, 4, 5, 6, 7, 8, 1000].map((attempt) => retryDelayMs('backoff', attempt, 0))
  assert.deepEqual(delays, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000])
})

test('jitter only ever shortens a delay, by at most its fraction', () => {
  const shortest = retryDelayMs('backoff', 1, 1)
  assert.equal(shortest, limits.retryBackoffMsMin * (1 - limits.retryJitter))
})

test('a busy host is asked again soon; a hopeless case slowly', () => {
  assert.equal(retryDelayMs('soon', 1, 0), limits.retrySoonMs)
  assert.equal(retryDelayMs('soon', limits.retriesSoonMax, 0), limits.retrySoonMs)
  assert.equal(retryDelayMs('on-change', 1, 0), limits.retryBackoffMsMax)
})

test('a host that stays busy is asked as for any other fault, from some attempts on', () => {
  const delays = [1, 2, 3, 1000].map((after) => retryDelayMs('soon', limits.retriesSoonMax + after, 0))
  assert.deepEqual(delays, [1000, 2000, 4000, 60_000])
})

test('settled VMs are looked at once a minute, and once a second for all of them together if they are many', () => {
  assert.equal(resyncDelayMs({ vms: 1, random: 0, monotonicMs: 0 }), 60_000)
  assert.equal(resyncDelayMs({ vms: 60, random: 0, monotonicMs: 0 }), 60_000)
  assert.equal(resyncDelayMs({ vms: 1000, random: 0, monotonicMs: 0 }), 1_000_000)
  assert.equal(resyncDelayMs({ vms: 1000, random: 1, monotonicMs: 0 }), 1_000_000 * (1 - limits.retryJitter))
})

test('looks at settled VMs come together', () => {
  const dueMs = (monotonicMs: number): number =>
    monotonicMs + resyncDelayMs({ vms: 1, random: 0, monotonicMs })
  assert.equal(dueMs(0), limits.resyncMs)
  assert.equal(dueMs(limits.resyncsTogetherMs - 1), limits.resyncMs)
  assert.equal(dueMs(limits.resyncsTogetherMs), limits.resyncMs + limits.resyncsTogetherMs)
})

test('first looks at VMs that rest are spread over the whole interval', () => {
  assert.equal(firstLookDelayMs({ vms: 1000, random: 0, monotonicMs: 0 }), 1_000_000)
  assert.equal(firstLookDelayMs({ vms: 1000, random: 0.5, monotonicMs: 0 }), 500_000)
})

test('the same failure again raises the count and keeps its first time', () => {
  const first = nextFault(recordOf(), failure, at(5000))
  assert.deepEqual([first.attempt, first.sinceMs, first.nextAttemptAtMs], [1, 5000, 6000])
  const again = nextFault(
    recordOf({ observed: { state: 'failed', sinceMs: 5000, fault: first } }),
    failure,
    at(6000),
  )
  assert.deepEqual([again.attempt, again.sinceMs, again.nextAttemptAtMs], [2, 5000, 8000])
})

test('another failure starts a new count', () => {
  const first = nextFault(recordOf(), failure, at(5000))
  const record = recordOf({ observed: { state: 'failed', sinceMs: 5000, fault: { ...first, attempt: 6 } } })
  const other = nextFault(record, { ...failure, code: 'tap_name_taken' }, at(9000))
  assert.deepEqual([other.attempt, other.sinceMs], [1, 9000])
})

test('a fault names the generation it is about', () => {
  assert.equal(nextFault(recordOf(), failure, at(0)).generation, 2)
})
