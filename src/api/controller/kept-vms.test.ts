import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf } from '../../../test/record.ts'
import { limits } from '../../config/limits.ts'
import { vmToWire } from '../wire/vm-to-wire.ts'
import { KeptVms } from './kept-vms.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'

/** Records whose revisions a test sets, and the ids that were read. */
function stage() {
  const kept = new KeptVms()
  const read: string[] = []
  const records = new Map<VmId, VmRecord>()
  const set = (id: string, revision: number, labels: Record<string, string> = {}): void => {
    const record = recordOf({ id: id as VmId })
    records.set(record.id, { ...record, revision, metadata: { labels, protected: false } })
  }
  const page = (): unknown => {
    read.length = 0
    const text = kept.pageText({ items: [...records.values()], revision: 9 }, (id) => {
      read.push(id)
      return records.get(id) ?? assert.fail(id)
    })
    return JSON.parse(text)
  }
  const asWire = (): unknown => ({
    items: [...records.values()].map((record) => vmToWire(record)),
    revision: 9,
  })
  return { set, page, asWire, read }
}

test('a VM is read again only when it has another revision', () => {
  const { set, page, asWire, read } = stage()
  assert.deepEqual(page(), { items: [], revision: 9 })
  set('a', 1)
  set('b', 2, { name: 'Müller "1"' })
  assert.deepEqual(page(), asWire())
  assert.deepEqual(read, ['a', 'b'])
  assert.deepEqual(page(), asWire())
  assert.deepEqual(read, [])
  set('b', 3)
  assert.deepEqual(page(), asWire())
  assert.deepEqual(read, ['b'])
})

test('what is kept stays within its bound, and every page is whole', () => {
  const { set, page, asWire, read } = stage()
  const labels = { long: 'x'.repeat(limits.keptVmsCharactersMax / 2) }
  for (const id of ['a', 'b', 'c']) set(id, 1, labels)
  assert.deepEqual(page(), asWire())
  assert.deepEqual(page(), asWire())
  assert.deepEqual(read, ['a', 'b', 'c'])
})
