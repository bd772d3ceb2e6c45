import assert from 'node:assert/strict'
import { test } from 'node:test'
import { changed } from './changed.ts'

type Disk = { readonly sizeMib: number; readonly iopsMax?: number; readonly label?: string }
const disk: Disk = { sizeMib: 64, iopsMax: 500, label: 'root' }

test('an absent member stays, a value replaces, and null removes', () => {
  assert.deepEqual(changed(disk, {}), disk)
  assert.deepEqual(changed(disk, { sizeMib: 128, iopsMax: null }), { sizeMib: 128, label: 'root' })
  assert.deepEqual(changed<Disk>({ sizeMib: 64 }, { label: 'data' }), { sizeMib: 64, label: 'data' })
})

test('removing what is not there changes nothing', () => {
  assert.deepEqual(changed<Disk>({ sizeMib: 64 }, { iopsMax: null }), { sizeMib: 64 })
})
