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
  const another = diskOf({ storeId: 'store-2', createdAtMs: 1000 }, rootfsSha256)
  assert.ok(another.kind === 'foreign')
  assert.equal(another.ofRebuild, undefined)
  assert.equal(diskOf({ storeId, createdAtMs: 999 }, rootfsSha256).kind, 'foreign')
})

test("the old disk is the VM's until a rebuild is done, and no other disk is", () => {
  const judged = (
    note: { readonly rebuild?: number; readonly rootfsSha256?: Sha256 },
    done: number,
  ): DiskState => {
    const image = { ...record.desired.image, rebuild: 2 }
    const rebuilt = {
      ...record,
      desired: { ...record.desired, image },
      observed: { ...record.observed, rebuild: done },
    }
    const found = { mark: markOfTests, rootfsSha256: undefined, ...note }
    return judgeDisk({ kind: 'present', sizeMib: 64, note: found, usableBy }, rebuilt, storeId)
  }
  const earlier = { rebuild: 1, rootfsSha256: 'c'.repeat(64) as Sha256 }
  assert.equal(judged(earlier, 1).kind, 'present')
  assert.equal(judged({ rebuild: 2, rootfsSha256 }, 1).kind, 'present')
  assert.equal(judged({ rebuild: 2, rootfsSha256 }, 2).kind, 'present')
  const restored = judged(earlier, 2)
  assert.ok(restored.kind === 'foreign', 'a disk that was restored after the rebuild is not replaced')
  assert.equal(restored.because, 'it is of rebuild 1, and the record of VM web-1 of rebuild 2')
  const newer = judged({ rebuild: 3, rootfsSha256 }, 1)
  assert.ok(newer.kind === 'foreign', 'the record is older than the disk')
  assert.equal(newer.ofRebuild, 3)
  assert.equal(judged({ rebuild: 2, rootfsSha256: 'c'.repeat(64) as Sha256 }, 1).kind, 'foreign')
})

test('a unit that is active or about to be is of the VM that its mark names', () => {
  const mark = { storeId: 'store-2', createdAtMs: 1000 }
  const kindOf = (unit: UnitState): string => judgeUnit(unit, record, storeId).kind
  assert.equal(kindOf({ kind: 'active', mainPid: 1, startedAtMs: 1, mark: markOfTests }), 'active')
  assert.equal(kindOf({ kind: 'active', mainPid: 1, startedAtMs: 1, mark }), 'foreign')
  assert.equal(kindOf({ kind: 'activating', mainPid: 0, startedAtMs: 0, mark }), 'foreign')
  assert.equal(kindOf({ kind: 'deactivating' }), 'deactivating')
})
