import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Batch } from './batch.ts'

test('what comes while a batch is under way is done together', async () => {
  const batches: string[][] = []
  const first = Promise.withResolvers<void>()
  const batch = new Batch<string, number>(async (items) => {
    batches.push([...items])
    if (batches.length === 1) await first.promise
    return new Map()
  })
  const all = [batch.add('a'), batch.add('b'), batch.add('c')]
  first.resolve()
  await Promise.all(all)
  await batch.add('d')
  assert.deepEqual(batches, [['a'], ['b', 'c'], ['d']])
})

test('each item gets its own answer, or all of a batch fail, and the next batch works', async () => {
  const batch = new Batch<string, number>(async (items) => {
    if (items.includes('throws')) throw new Error('all')
    return new Map(items.filter((item) => item !== 'unknown').map((item) => [item, item.length]))
  })
  const outcomes = await Promise.allSettled(['one', 'two', 'other', 'throws'].map((item) => batch.add(item)))
  assert.deepEqual(
    outcomes.map((one) => (one.status === 'rejected' ? (one.reason as Error).message : one.value)),
    [3, 'all', 'all', 'all'],
  )
  assert.deepEqual(await Promise.all(['one', 'unknown', 'three'].map((item) => batch.add(item))), [
    3,
    undefined,
    5,
  ])
})
