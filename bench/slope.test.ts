import assert from 'node:assert/strict'
import { test } from 'node:test'
import { slopeOf } from './slope.ts'

test('the slope of a line is its slope, and noise around a level has none', () => {
  const line = [1, 2, 5].map((at) => ({ at, value: 3 * at + 7 }))
  assert.ok(Math.abs(slopeOf(line) - 3) < 1e-9)
  const noise = [4, 6, 5, 6, 4].map((value, at) => ({ at, value }))
  assert.equal(slopeOf(noise), 0)
})
