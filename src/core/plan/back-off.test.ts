import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { backOffOf } from './back-off.ts'
import type { Generation } from '../ids.ts'
import type { Fault } from '../vm/record.ts'
import type { Step } from './step.ts'

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
