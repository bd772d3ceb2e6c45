import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Batch } from './batch.ts'

test('what comes while a batch is under way is done together', async () => {
  const batches: string[][] = []
  const first = Promise.withResolvers<void>()
  const batch = new Batch<string>(async (items) => {
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

test('an item fails alone, or all of its batch fail, and the next batch works', async () => {
  const broken = new Error('all')
  const batch = new Batch<string>(async (items) => {
    if (items.includes('throws')) throw broken
    return new Map(items.filter((item) => item === 'bad').map((item) => [item, new Error('alone')]))
  })
  const outcomes = await Promise.allSettled(['good', 'bad', 'other', 'throws'].map((item) => batch.add(item)))
  assert.deepEqual(
    outcomes.map((one) => (one.status === 'rejected' ? (one.reason as Error).message : 'done')),
    ['done', 'all', 'all', 'all'],
  )
  await assert.rejects(batch.add('bad'), /alone/)
  await batch.add('good')
})
