import assert from 'node:assert/strict'
import { test } from 'node:test'
import { QuietStretches } from './quiet-stretches.ts'

test('stretches that touch or overlap are one, whatever the order is in which they are found', () => {
  const quiet = new QuietStretches()
  quiet.note(40, 50)
  quiet.note(0, 10)
  quiet.note(10, 30)
  quiet.note(10, 20)
  quiet.note(40, 45)
  for (const [offset, end] of [
    [0, 30],
    [29, 30],
    [30, undefined],
    [40, 50],
    [50, undefined],
  ] as const)
    assert.equal(quiet.endOf(offset), end, `${offset}`)
})
