import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { Store } from '../store.ts'
import { readRecordsFacts } from './records-facts.ts'

test('the facts of records are read while they are in use or not, leave nothing behind, and may be of a newer build', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'records-'))
  t.after(() => rmSync(directory, { recursive: true }))
  assert.equal(readRecordsFacts(directory), undefined)
  const store = new Store(directory, { first: 600_000, count: 3 })
  assert.equal(readRecordsFacts(directory)?.poolId, undefined)
  store.rememberPool('pool-1')
  const { schemaVersion, schemaVersionMax, poolId } = readRecordsFacts(directory) ?? assert.fail('none')
  assert.deepEqual([schemaVersion, poolId], [schemaVersionMax, 'pool-1'])
  store.close()
  const files = readdirSync(directory)
  assert.equal(readRecordsFacts(directory)?.poolId, 'pool-1')
  assert.deepEqual(readdirSync(directory), files)
  const path = join(directory, 'vmhostd.db')
  const db = new DatabaseSync(path)
  db.exec('PRAGMA user_version = 999')
  db.close()
  assert.equal(readRecordsFacts(directory)?.schemaVersion, 999)
  writeFileSync(path, 'x'.repeat(5000))
  assert.throws(() => readRecordsFacts(directory), /not a database/)
})
