import assert from 'node:assert/strict'
import { test } from 'node:test'
import { markOfTests, recordOf } from '../../../test/record.ts'
import { judgeDisk, judgeUnit } from './judge-owner.ts'
import type { DiskState, UnitState } from '../world/world.ts'
import type { Sha256, UserId } from '../ids.ts'

const { storeId } = markOfTests
const record = recordOf()
const { rootfsSha256 } = record.desired.image
const usableBy = 600_000 as UserId

const diskOf = (mark: typeof markOfTests, madeOf?: Sha256): DiskState =>
  judgeDisk({ kind: 'present', sizeMib: 64, note: { mark, rootfsSha256: madeOf }, usableBy }, record, storeId)

test('a disk is of the VM that its note names, made of the image that the VM is made of', () => {
  assert.equal(diskOf(markOfTests, rootfsSha256).kind, 'present')
  assert.equal(diskOf(markOfTests).kind, 'present', 'the image is not known')
  const other = diskOf(markOfTests, 'c'.repeat(64) as Sha256)
  assert.ok(other.kind === 'foreign')
  assert.match(other.because, /it was made of image c+, and VM web-1 is made of a+$/)
  assert.equal(diskOf({ storeId: 'store-2', createdAtMs: 1000 }, rootfsSha256).kind, 'foreign')
  assert.equal(diskOf({ storeId, createdAtMs: 999 }, rootfsSha256).kind, 'foreign')
})

test('a unit that is active or about to be is of the VM that its mark names', () => {
  const mark = { storeId: 'store-2', createdAtMs: 1000 }
  const kindOf = (unit: UnitState): string => judgeUnit(unit, record, storeId).kind
  assert.equal(kindOf({ kind: 'active', mainPid: 1, startedAtMs: 1, mark: markOfTests }), 'active')
  assert.equal(kindOf({ kind: 'active', mainPid: 1, startedAtMs: 1, mark }), 'foreign')
  assert.equal(kindOf({ kind: 'activating', mainPid: 0, startedAtMs: 0, mark }), 'foreign')
  assert.equal(kindOf({ kind: 'deactivating' }), 'deactivating')
})
