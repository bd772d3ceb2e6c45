import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { Store } from '../store.ts'
import { readRecordedVms, readRecordsFacts } from './records-facts.ts'

test('the facts of records are read while they are in use or not, leave nothing behind, and may be of a newer build', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'records-'))
  t.after(() => rmSync(directory, { recursive: true }))
  assert.equal(readRecordsFacts(directory), undefined)
  assert.deepEqual(readRecordedVms(directory), new Set())
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
  assert.equal(readRecordsFacts(directory)?.copy, undefined)
  mkdirSync(join(directory, 'copies'))
  for (const version of [1, 2, schemaVersionMax, schemaVersionMax + 1])
    writeFileSync(join(directory, `copies/schema-${version}.db`), '')
  assert.equal(readRecordsFacts(directory)?.copy, join(directory, `copies/schema-${schemaVersionMax}.db`))
  writeFileSync(path, 'x'.repeat(5000))
  assert.throws(() => readRecordsFacts(directory), { name: 'RecordsUnread', fault: 'damaged' })
})

test('records that cannot be read for a reason that is not in them say so, with their path', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'records-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'vmhostd.db')
  const unread = (fault: string) => ({ name: 'RecordsUnread', message: new RegExp(path), fault })
  const daemon = new DatabaseSync(path)
  daemon.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; CREATE TABLE one (a)')
  assert.throws(() => readRecordsFacts(directory, 0), unread('locked'))
  daemon.close()
  // First the directory is for root alone, then the file.
  chmodSync(path, 0o600)
  for (const mode of [0o700, 0o755]) {
    chmodSync(directory, mode)
    process.seteuid?.(65_534)
    try {
      assert.throws(() => readRecordsFacts(directory), unread('forbidden'))
    } finally {
      process.seteuid?.(0)
    }
  }
})
