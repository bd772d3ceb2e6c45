import assert from 'node:assert/strict'
import { test } from 'node:test'
import { UnchangedSince } from './unchanged-since.ts'

test('the time counts from the first look at a value, and starts again with another value', () => {
  const since = new UnchangedSince<string, number | undefined>()
  assert.deepEqual([since.note('a', 1, 100), since.note('a', 1, 130)], [0, 30])
  assert.deepEqual([since.note('a', 2, 150), since.note('a', 2, 160)], [0, 10])
  assert.deepEqual([since.note('b', undefined, 160), since.note('b', undefined, 170)], [0, 10])
  assert.equal(since.note('a', 2, 180), 30)
})

test('an id that is forgotten starts again, and no other', () => {
  const since = new UnchangedSince<string, number>()
  const note = (monotonicMs: number) => ['a', 'b', 'c'].map((id) => since.note(id, 1, monotonicMs))
  note(0)
  since.forget('a')
  assert.deepEqual(note(10), [0, 10, 10])
  since.keepOnly(new Set(['c', 'd']))
  assert.deepEqual(note(20), [0, 0, 20])
})
