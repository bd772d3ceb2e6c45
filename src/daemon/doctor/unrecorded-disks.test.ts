import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { markPool } from '../../host/pool/pool-marker.ts'
import { belongTogether, unrecordedDisks } from './unrecorded-disks.ts'

test('disks are compared with the records of their pool alone', () => {
  const pool = {
    known: true,
    value: { directory: '/p', poolId: 'pool-1', reflink: true, availableMib: 1 },
  } as const
  const records = { known: true, value: { schemaVersion: 1, schemaVersionMax: 1 } } as const
  assert.ok(belongTogether(pool, records))
  assert.ok(belongTogether(pool, { known: true, value: undefined }))
  assert.ok(belongTogether(pool, { known: true, value: { ...records.value, poolId: 'pool-1' } }))
  assert.ok(!belongTogether(pool, { known: true, value: { ...records.value, poolId: 'pool-2' } }))
  assert.ok(!belongTogether(pool, { known: false, because: 'x' }))
  assert.ok(!belongTogether({ known: false, directory: '/p', because: 'x' }, records))
})

test('a disk without a record is found, also where all records are lost; a directory without a disk is not', async (t) => {
  const at = mkdtempSync(join(tmpdir(), 'doctor-disks-'))
  t.after(() => rmSync(at, { recursive: true }))
  const directory = join(at, 'pool')
  const pool = { directory, poolId: (await markPool(directory)).poolId }
  const makeDisk = (id: string): void => {
    mkdirSync(join(directory, 'disks', id))
    writeFileSync(join(directory, 'disks', id, 'disk.raw'), '')
  }
  const found = () => unrecordedDisks(pool, at)
  assert.deepEqual(await found(), { ids: [], isMore: false })
  mkdirSync(join(directory, 'disks', 'empty'))
  for (const id of ['web-2', 'web-1']) makeDisk(id)
  assert.deepEqual(await found(), { ids: ['web-1', 'web-2'], isMore: false })
  const db = new DatabaseSync(join(at, 'vmhostd.db'))
  db.exec("CREATE TABLE vms (id TEXT PRIMARY KEY); INSERT INTO vms VALUES ('web-1')")
  db.close()
  assert.deepEqual(await found(), { ids: ['web-2'], isMore: false })
  for (let index = 0; index < limits.doctorDisksMax; index += 1) makeDisk(`app-${index}`)
  const { ids, isMore } = await found()
  assert.deepEqual([ids.length, isMore], [limits.doctorDisksMax, true])
})
