import assert from 'node:assert/strict'
import { test } from 'node:test'
import { markOfTests } from '../../../test/record.ts'
import { judgeOrphans } from './judge-orphans.ts'
import type { VmId } from '../ids.ts'

const [known, disk, unit, bare, foreign] = ['known', 'disk', 'unit', 'bare', 'foreign'] as VmId[] as [
  VmId,
  VmId,
  VmId,
  VmId,
  VmId,
]
const active = { kind: 'active', mainPid: 42, startedAtMs: 1500, mark: markOfTests } as const
const own = { state: active, storeId: 'store-1' }

test('a VM without a record is left alone, unless its unit is of this store and has no disk', () => {
  const units = [known, unit, bare].map((id) => ({ id, ...own }))
  const judged = judgeOrphans(
    { units: [...units, { id: foreign, state: active, storeId: 'other' }], disks: [known, disk, unit] },
    new Set([known]),
    'store-1',
  )
  assert.deepEqual([...judged].map(([id, { kind }]) => `${id} ${kind}`).toSorted(), [
    'bare ends',
    'disk lacks',
    'foreign lacks',
    'unit lacks',
  ])
})
