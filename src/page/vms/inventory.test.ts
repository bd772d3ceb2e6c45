import assert from 'node:assert/strict'
import { test } from 'node:test'
import { vmOnWire } from '../../../test/vm-on-wire.ts'
import { inventoryOf, isNews, withChanges } from './inventory.ts'

const [a, b, c] = ['a', 'b', 'c'].map((id) => vmOnWire(id))
assert.ok(a && b && c)

test('a list in pages is as old as its first page', () => {
  const { vms, revision } = inventoryOf([
    { items: [a], revision: 7, next_cursor: 'x' },
    { items: [b], revision: 9 },
  ])
  assert.deepEqual([...vms.keys()], ['a', 'b'])
  assert.equal(revision, 7)
})

test('changes replace, add and remove VMs, and leave the others as they are', () => {
  const before = inventoryOf([{ items: [a, b], revision: 7 }])
  const changed = vmOnWire('b', { observed: { state: 'stopped' } })
  const after = withChanges(before, { items: [changed, c], deleted: ['a'], revision: 12 })
  assert.deepEqual([...after.vms.keys()], ['b', 'c'])
  assert.equal(after.vms.get('b'), changed)
  assert.equal(after.revision, 12)
  // A VM that was deleted and made again is there.
  assert.ok(withChanges(before, { items: [a], deleted: ['a'], revision: 12 }).vms.has('a'))
  assert.deepEqual([...before.vms.keys()], ['a', 'b'])
})

test('an event is news only if the list was read before it', () => {
  const list = inventoryOf([{ items: [], revision: 7 }])
  assert.deepEqual(
    [6, 7, 8].map((sequence) => isNews(list, sequence)),
    [false, false, true],
  )
})
