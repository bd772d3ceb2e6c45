import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { VmId } from '../../core/ids.ts'
import { KeptOfVms } from './kept-of-vms.ts'

test('only what is kept of the present file of a VM is used again', () => {
  let made = 0
  const kept = new KeptOfVms(() => (made += 1))
  const [web, db] = ['web-1' as VmId, 'db-1' as VmId]
  assert.deepEqual([kept.of(web, 'a'), kept.of(db, 'a'), kept.of(web, 'a')], [1, 2, 1])
  assert.deepEqual([kept.of(web, 'b'), kept.of(web, 'a'), kept.of(db, 'a')], [3, 4, 2])
  kept.forget(db)
  assert.deepEqual([kept.of(db, 'a'), kept.of(web, 'a')], [5, 4])
})
