import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { ageStore } from '../../../test/age-store.ts'
import { restoringOf } from '../../../test/restoring-of.ts'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import { schemaVersionOf } from './migrations.ts'
import { openDatabase } from './open-database.ts'
import type { VmId } from '../../core/ids.ts'

const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }

function edited<T>(path: string, use: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(path)
  try {
    return use(db)
  } finally {
    db.close()
  }
}

for (const [version, sql, row] of [
  [4, "UPDATE vms SET desired = '{' WHERE id = 'web-1'", "vms WHERE id = 'web-1'"],
  [19, "UPDATE vms SET observed = 'no' WHERE id = 'web-1'", "vms WHERE id = 'web-1'"],
  [18, "INSERT INTO events VALUES (7, 1, NULL, '[')", 'events WHERE sequence = 7'],
] as const)
  test(`records of version ${version} with a column that is not JSON name the row, and what to do: ${row}`, (t) => {
    const stage = new StoreStage(t)
    stage.insertVm('web-1', image)
    stage.insertVm('web-2', image)
    const path = `${stage.directory}/vmhostd.db`
    stage.reopen(() => {
      ageStore(stage.directory, version)
      edited(path, (db) => db.exec(sql))
      assert.throws(
        () => openDatabase(path),
        (error: Error) => error.message.includes(`"PRAGMA foreign_keys = ON; DELETE FROM ${row}"`),
      )
      assert.equal(edited(path, schemaVersionOf), version)
      edited(path, (db) => db.exec(`PRAGMA foreign_keys = ON; DELETE FROM ${row}`))
    })
    // Nothing of the VM is left, so it can get a record again.
    if (!stage.store.vms.ids().includes('web-1' as VmId)) stage.insertVm('web-1', image)
    assert.deepEqual(stage.store.vms.ids(), ['web-1', 'web-2'])
  })

test('a file to put back whose schema cannot change is named with the row, and nothing is left of its copy', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-1', image)
  const { directory } = stage
  const file = `${directory}/vmhostd.db`
  stage.reopen(() => {
    ageStore(directory, 4)
    edited(file, (db) => db.exec("UPDATE vms SET desired = '{'"))
    assert.throws(
      () => restoringOf(stage, file),
      (error: Error) => {
        assert.match(error.message, /the records of .*vmhostd\.db cannot be opened$/)
        assert.match(
          (error.cause as Error).message,
          /^the record of the VM web-1 has a "desired" that is not JSON: /,
        )
        return true
      },
    )
    edited(file, (db) => db.exec("DELETE FROM vms WHERE id = 'web-1'"))
  })
})
