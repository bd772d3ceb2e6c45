import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agoWords, coarseSpan } from './ages.ts'

test('a span has one unit', () => {
  const MINUTE = 60_000
  for (const [words, ms] of [
    ['under 1 min', -5],
    ['under 1 min', 59_999],
    ['1 min', MINUTE],
    ['119 min', 119 * MINUTE],
    ['2 h', 120 * MINUTE],
    ['47 h', 47 * 60 * MINUTE],
    ['2 d', 48 * 60 * MINUTE],
  ] as const)
    assert.equal(coarseSpan(ms), words)
  assert.equal(agoWords(119_999), 'just now')
  assert.equal(agoWords(-3 * MINUTE), 'just now')
  assert.equal(agoWords(120_000), '2 min ago')
})
