import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { backOffOf } from './back-off.ts'
import type { Generation } from '../ids.ts'
import type { Fault } from '../vm/record.ts'
import type { Step } from './step.ts'

const NOW_MS = 1_000_000
const start: Step = { kind: 'unit.ensure-started', paused: false, restore: false, because: 'it is gone' }
const tap: Step = { kind: 'network.ensure-tap', lane: 'network', because: 'it is gone' }
const firewall: Step = { kind: 'network.ensure-firewall', lane: 'network', because: 'it is gone' }
const master: Step = { kind: 'console.ensure-master', lane: 'console', because: 'it is gone' }

const fault = (nextAttemptAtMs: number, step: Fault['step'] = 'unit.ensure-started'): Fault => ({
  code: 'systemd_unavailable',
  step,
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

test('a step in a lane holds its lane, and no other step', () => {
  const { ms, free } = backOffOf([firewall, tap, master], fault(NOW_MS + 1000, 'network.ensure-tap'), NOW_MS)
  assert.deepEqual([ms, free], [1000, [master]])
})

test('a fault of a step that is not planned any more holds nothing', () => {
  const free = { ms: 0, free: [tap, master] }
  assert.deepEqual(backOffOf([tap, master], fault(NOW_MS + 1000), NOW_MS), free)
})

test('a guest that ended holds its next start', () => {
  const { ms, free } = backOffOf([tap, start], fault(NOW_MS + 1000, 'unit.run'), NOW_MS)
  assert.deepEqual([ms, free], [1000, []])
})

test('a fault of the pass itself holds every step', () => {
  const { ms, free } = backOffOf([tap, master], fault(NOW_MS + 1000, 'pass'), NOW_MS)
  assert.deepEqual([ms, free], [1000, []])
})
