import assert from 'node:assert/strict'
import { test } from 'node:test'
import { vmOnWire } from '../../../test/vm-on-wire.ts'
import { announcementOf } from './announce.ts'
import { inventoryOf } from './inventory.ts'

const healthy = (...ids: string[]) => ids.map((id) => vmOnWire(id))
const broken = (...ids: string[]) =>
  ids.map((id) => vmOnWire(id, { observed: { error: 'network.inspect: no answer' } }))
const listOf = (...vms: ReturnType<typeof healthy>) => inventoryOf([{ items: vms, revision: 1 }])

test('an error that begins is spoken, and one that goes on is not', () => {
  const before = listOf(...healthy('a', 'b'))
  const after = listOf(...broken('a'), ...healthy('b'))
  assert.equal(announcementOf(before, after), 'a has an error: no answer, in network.inspect.')
  assert.equal(announcementOf(after, after), '')
})

test('many errors at once are one short sentence', () => {
  const ids = ['a', 'b', 'c', 'd', 'e']
  const [before, after] = [listOf(...healthy(...ids)), listOf(...broken(...ids))]
  assert.equal(announcementOf(before, after), 'a, b, c and 2 more VMs have errors.')
  assert.equal(announcementOf(after, before), 'a, b, c and 2 more VMs have no error any more.')
})

test('a change of state is not spoken, and neither is a VM that goes', () => {
  const stopped = vmOnWire('a', { observed: { state: 'stopped' } })
  assert.equal(announcementOf(listOf(...healthy('a')), listOf(stopped)), '')
  assert.equal(announcementOf(listOf(...broken('a')), listOf()), '')
})
