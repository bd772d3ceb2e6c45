import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { afterLook, nextLookMs } from './guest-seen.ts'

test('an agent is seen since the first look that found it', () => {
  const first = afterLook({}, { agent: true, misses: 0 }, 1000)
  assert.deepEqual(first, { agentSinceMs: 1000 })
  assert.deepEqual(afterLook(first, { agent: true, misses: 0 }, 2000), first)
})

test('one look without an agent, and a failed one, change nothing; a second one in a row does', () => {
  const seen = { agentSinceMs: 1000 }
  assert.deepEqual(afterLook(seen, { agent: false, misses: 1 }, 2000), seen)
  assert.deepEqual(afterLook(seen, { agent: undefined, misses: 0 }, 2000), seen)
  assert.deepEqual(afterLook(seen, { agent: false, misses: limits.guestMissesMin }, 2000), {})
})

test('a guest without an agent is looked at less and less often, and one with an agent seldom', () => {
  const times = [0, 1, 2, 4, 5, 1000].map((looks) => nextLookMs({}, { looks, misses: looks }))
  assert.deepEqual(times, [1000, 2000, 4000, 16_000, 30_000, 30_000])
  const seen = { agentSinceMs: 1 }
  assert.equal(nextLookMs(seen, { looks: 0, misses: 0 }), limits.guestLookMsMax)
  assert.equal(nextLookMs(seen, { looks: 9, misses: 1 }), limits.guestLookMsMin)
})
