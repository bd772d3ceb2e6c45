import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { MIB } from '../../lib/byte-units.ts'
import { afterRounds } from './rounds.ts'

const slow = (mib: number): { bytes: number; ms: number } => ({ bytes: mib * MIB, ms: mib * 10 })

test('rounds go on while they shrink and take long', () => {
  assert.equal(afterRounds([]), 'another')
  assert.equal(afterRounds([slow(4000)]), 'another')
  assert.equal(afterRounds([slow(4000), slow(400)]), 'another')
  assert.equal(afterRounds([slow(4000), slow(400), slow(50)]), 'hand_over')
})

test('a round that is not smaller than the one before is the last', () => {
  assert.equal(afterRounds([slow(4000), slow(400), slow(400)]), 'hand_over')
  const many = Array.from({ length: limits.roundsMax }, (_, at) => slow(2000 - at))
  assert.equal(afterRounds(many.slice(0, -1)), 'another')
  assert.equal(afterRounds(many), 'hand_over')
})

test('a guest whose rest takes longer than it may be down does not move', () => {
  // At 100 MiB/s.
  const mostMib = limits.handoverMsMax / 10
  assert.equal(afterRounds([slow(8000), slow(mostMib + 1), slow(mostMib + 1)]), 'give_up')
  assert.equal(afterRounds([slow(8000), slow(mostMib), slow(mostMib)]), 'hand_over')
})

test('the rate of a few bytes decides nothing', () => {
  const few = { bytes: 4096, ms: limits.handoverMsMax }
  assert.equal(afterRounds([few, few]), 'hand_over')
})
