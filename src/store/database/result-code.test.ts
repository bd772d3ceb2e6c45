import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { SQLITE_CANTOPEN, primaryCodeOf, resultCodeOf } from './result-code.ts'

test('an error of SQLite has its extended result code, and the primary one in the lowest byte', () => {
  const SQLITE_CONSTRAINT_PRIMARYKEY = 1555
  const db = new DatabaseSync(':memory:')
  db.exec('CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)')
  const error = errorOf(() => db.exec('INSERT INTO t VALUES (1)'))
  assert.equal(resultCodeOf(error), SQLITE_CONSTRAINT_PRIMARYKEY)
  assert.equal(primaryCodeOf(error), SQLITE_CONSTRAINT_PRIMARYKEY % 256)
  assert.equal(primaryCodeOf(errorOf(() => new DatabaseSync('/'))), SQLITE_CANTOPEN)
})

test('any other error has no result code', () => {
  for (const error of [
    undefined,
    null,
    'text',
    new Error('x'),
    Object.assign(new Error('x'), { errcode: 5 }),
  ])
    assert.equal(primaryCodeOf(error), undefined)
})

function errorOf(act: () => unknown): unknown {
  try {
    act()
  } catch (error) {
    return error
  }
  return assert.fail('nothing was thrown')
}
