import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { recordOf } from '../../../test/record.ts'
import { nextFault, retryDelayMs, backOffOf } from './retry.ts'
import type { Failure } from './retry.ts'
import type { Step } from '../plan/step.ts'
import type { Fault } from '../vm/record.ts'
import type { Generation } from '../ids.ts'

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

test('a busy host is asked again soon, whatever came before; a hopeless case slowly', () => {
  assert.equal(retryDelayMs('soon', 9, 0), limits.retrySoonMs)
  assert.equal(retryDelayMs('on-change', 1, 0), limits.retryBackoffMsMax)
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

const NOW_MS = 1_000_000
const start: Step = { kind: 'unit.ensure-started', paused: false, restore: false, because: 'it is gone' }
const fault = (nextAttemptAtMs: number): Fault => ({
  code: 'systemd_unavailable',
  step: 'unit.ensure-started',
  message: 'no answer',
  generation: 1 as Generation,
  sinceMs: NOW_MS,
  attempt: 1,
  nextAttemptAtMs,
})

test('a back-off holds the step that failed until it is over', () => {
  assert.deepEqual(backOffOf([start], fault(NOW_MS + 1000), NOW_MS), { ms: 1000, free: [] })
  assert.deepEqual(backOffOf([start], fault(NOW_MS), NOW_MS).free, [start])
})

test('a back-off that seems longer than any is over: the clock was set back', () => {
  const longest = NOW_MS + limits.retryBackoffMsMax
  assert.deepEqual(backOffOf([start], fault(longest), NOW_MS).free, [])
  assert.deepEqual(backOffOf([start], fault(longest + 1), NOW_MS).free, [start])
})
