import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import {
  afterLook,
  checkedBy,
  firstLookMs,
  groupedWaitMs,
  looksIn,
  missesAfter,
  nextLookMs,
  readySinceMs,
} from './guest-seen.ts'
import type { GuestLook, GuestSeen, Misses } from './guest-seen.ts'

const http = { protocol: 'http', port: 80, path: '/healthz' } as const
const none: Misses = { agent: 0, check: 0 }

/** Takes looks one second apart, the first at second 1; returns what they add up to. */
function after(looks: readonly GuestLook[], before: GuestSeen = {}): GuestSeen {
  let misses = none
  return looks.reduce((seen, look, index) => {
    misses = missesAfter(misses, look)
    return afterLook(seen, look, { misses, nowMs: (index + 1) * 1000 })
  }, before)
}

const ready: GuestLook = { agent: undefined, check: { by: http, because: undefined } }
const failed: GuestLook = { agent: undefined, check: { by: http, because: 'status 503' } }

test('an agent is seen since the first look that found it', () => {
  assert.deepEqual(after([{ agent: false }, { agent: true }, { agent: true }]), { agentSinceMs: 2000 })
})

test('one look without an agent, and a failed one, change nothing; a second one in a row does', () => {
  const seen = { agentSinceMs: 500 }
  assert.deepEqual(after([{ agent: false }], seen), seen)
  assert.deepEqual(after([{ agent: false }, { agent: undefined }, { agent: false }], seen), seen)
  assert.deepEqual(after([{ agent: false }, { agent: false }], seen), {})
})

test('a guest is ready since the first look whose check succeeded, until some in a row fail', () => {
  const isReady = { checked: { by: http, readySinceMs: 2000 } }
  assert.deepEqual(after([failed, ready, ready]), isReady)
  const failures = Array.from({ length: limits.readinessMissesMin }, () => failed)
  assert.deepEqual(after([failed, ready, ...failures.slice(1), ready]), isReady)
  assert.deepEqual(after([failed, ready, ...failures]), { checked: { by: http, because: 'status 503' } })
})

test('without a check the agent makes a guest ready; with one, only what that very check found counts', () => {
  const seen = after([{ ...ready, agent: true }])
  assert.deepEqual([readySinceMs(seen, undefined), readySinceMs(seen, http)], [1000, 1000])
  const other = { protocol: 'http', port: 80 } as const
  assert.deepEqual([readySinceMs(seen, other), checkedBy(seen, other)], [undefined, undefined])
  const check = { by: other, because: 'status 404' }
  assert.deepEqual(after([{ agent: true, check }], seen).checked, check)
  assert.equal(after([{ agent: true }], seen).checked, undefined, 'the check was removed')
})

test('a guest without an agent is looked at less and less often, and one with an agent seldom', () => {
  const times = [0, 1, 2, 4, 5, 1000].map((looks) => nextLookMs({}, undefined, { looks, misses: none }))
  assert.deepEqual(times, [1000, 2000, 4000, 16_000, 30_000, 30_000])
  const seen = { agentSinceMs: 1 }
  assert.equal(nextLookMs(seen, undefined, { looks: 0, misses: none }), limits.guestLookMsMax)
  assert.equal(nextLookMs(seen, undefined, { looks: 9, misses: { ...none, agent: 1 } }), 1000)
})

test('a check is made at least every ten seconds, and soon again after one that failed', () => {
  const seen = after([ready])
  assert.equal(nextLookMs(seen, http, { looks: 1, misses: none }), limits.readinessLookMsMax)
  assert.equal(
    nextLookMs(seen, http, { looks: 9, misses: { agent: 5, check: 0 } }),
    limits.readinessLookMsMax,
  )
  assert.equal(nextLookMs(seen, http, { looks: 9, misses: { ...none, check: 1 } }), 1000)
  assert.equal(nextLookMs({}, http, { looks: 9, misses: { ...none, check: 9 } }), limits.readinessLookMsMax)
})

test('the first look of a daemon comes soon after the start of a guest, and else at a random time', () => {
  assert.deepEqual([-5, 0, 999, 1000, 2999, 3000, 7000, 3_600_000].map(looksIn), [0, 0, 0, 1, 1, 2, 3, 11])
  const seen = { agentSinceMs: 1 }
  assert.equal(firstLookMs(seen, undefined, { looks: 0, random: 0.5 }), limits.guestLookMsMin)
  assert.equal(firstLookMs({}, undefined, { looks: 2, random: 0.5 }), 2500)
  const times = [0, 0.5, 1].map((random) => firstLookMs(seen, undefined, { looks: 2, random }))
  assert.deepEqual(times, [1000, 15_500, 30_000])
  assert.equal(firstLookMs({}, http, { looks: 11, random: 1 }), limits.readinessLookMsMax)
})

test('looks that are due at about the same time come together, and none comes late', () => {
  const dueMs = (nowMs: number): number => nowMs + groupedWaitMs(limits.guestLookMsMax, nowMs)
  assert.deepEqual([0, 1, 1874, 1875].map(dueMs), [30_000, 30_000, 30_000, 31_875])
  assert.equal(groupedWaitMs(limits.guestLookMsMin, 62.5), limits.guestLookMsMin)
})
