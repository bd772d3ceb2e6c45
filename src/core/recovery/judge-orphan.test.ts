import assert from 'node:assert/strict'
import { test } from 'node:test'
import { markOfTests } from '../../../test/record.ts'
import { judgeOrphans, judgeJoining, judgeOrphan } from './judge-orphan.ts'
import type { VmId, Sha256, UserId } from '../ids.ts'
import type { Orphan } from './judge-orphan.ts'

const rootfsSha256 = 'a'.repeat(64) as Sha256
const userId = 600_000 as UserId
const disk = {
  kind: 'present',
  sizeMib: 64,
  note: { mark: markOfTests, rootfsSha256, rebuild: 2 },
  usableBy: userId,
} as const
const active = { kind: 'active', mainPid: 42, startedAtMs: 1500, mark: markOfTests } as const
const absent = { kind: 'absent' } as const
const known = { ...markOfTests, userId, diskMib: 64, rootfsSha256, rebuild: 2 }

test('a VM without a record is left alone, unless its unit is of this store and has no disk', () => {
  const of = (name: string) => ({ id: name as VmId, state: active, storeId: 'store-1' })
  const units = [of('known'), of('unit'), of('bare'), { ...of('foreign'), storeId: 'other' }]
  const disks = ['known', 'disk', 'unit'] as VmId[]
  const judged = judgeOrphans({ units, disks }, new Set(['known' as VmId]), 'store-1')
  assert.deepEqual([...judged].map(([id, { kind }]) => `${id} ${kind}`).toSorted(), [
    'bare ends',
    'disk lacks',
    'foreign lacks',
    'unit lacks',
  ])
})

test('disk, note and unit say what is known of a VM without a record', () => {
  assert.deepEqual(judgeOrphan({ unit: absent, disk }), { ok: true, value: known })
  assert.deepEqual(judgeOrphan({ unit: active, disk }), { ok: true, value: { ...known, guest: 'runs' } })
  const { note: _note, ...bare } = disk
  assert.deepEqual(judgeOrphan({ unit: active, disk: bare }), {
    ok: true,
    value: { ...markOfTests, userId, diskMib: 64, guest: 'runs' },
  })
  assert.deepEqual(judgeOrphan({ unit: absent, disk: { kind: 'present', sizeMib: 64 } }), {
    ok: true,
    value: { diskMib: 64 },
  })
})

test('a VM without a disk, or whose unit and disk differ, gets no record', () => {
  assert.equal(judgeOrphan({ unit: absent, disk: absent }).ok, false)
  const other = { ...active, mark: { ...markOfTests, createdAtMs: 1 } }
  assert.equal(judgeOrphan({ unit: other, disk }).ok, false)
})

const joins = (orphan: Partial<Orphan>, isEmpty: boolean): unknown => {
  const joining = judgeJoining({ diskMib: 64, ...orphan }, { storeId: 'store-1', isEmpty })
  return joining.ok ? joining.value.kind : 'refused'
}

test('a VM of another store joins an empty store with its id, and any other one only without a guest', () => {
  assert.equal(joins({ storeId: 'store-1', guest: 'runs' }, false), 'own')
  assert.equal(joins({ storeId: 'lost', guest: 'runs' }, true), 'adopt')
  assert.equal(joins({ storeId: 'lost' }, false), 'remark')
  assert.equal(joins({ storeId: 'lost', guest: 'sleeps' }, false), 'remark')
  assert.equal(joins({ storeId: 'lost', guest: 'runs' }, false), 'refused')
  assert.equal(joins({}, true), 'remark')
})
