import assert from 'node:assert/strict'
import fs, { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { lockStateDirectory, openDatabase } from './open-database.ts'
import type { TestContext } from 'node:test'

const BUSY: { databaseOpenBusyMs: number } = limits

function stage(t: TestContext): { directory: string; path: string } {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-open-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return { directory, path: join(directory, 'vmhostd.db') }
}

const modeOf = (db: DatabaseSync): unknown => db.prepare('PRAGMA locking_mode').get()?.['locking_mode']

test('a lock file that is damaged is named, and may be removed', (t) => {
  const { directory } = stage(t)
  const path = join(directory, 'lock.db')
  writeFileSync(path, 'not a database'.repeat(999))
  assert.throws(() => lockStateDirectory(directory), {
    message: new RegExp(`^${path} is damaged: remove it`),
  })
  rmSync(path)
  lockStateDirectory(directory).release()
})

test('the lock file is for its owner alone, whatever the umask is, also one that is there', (t) => {
  const umask = process.umask(0o022)
  t.after(() => process.umask(umask))
  const { directory } = stage(t)
  const path = join(directory, 'lock.db')
  for (let time = 0; time < 2; time += 1) {
    lockStateDirectory(directory).release()
    assert.equal(statSync(path).mode & 0o777, 0o600)
    chmodSync(path, 0o644)
  }
})

test('records that another process has locked for a moment are not kept from other processes', (t) => {
  t.mock.property(BUSY, 'databaseOpenBusyMs', 1)
  const { path } = stage(t)
  openDatabase(path).close()
  const other = new DatabaseSync(path)
  let opens = 0
  const chmod = fs.chmodSync
  // Each try to open begins with it. The first try finds a lock, and another one would not.
  t.mock.method(fs, 'chmodSync', (name: string, mode: number) => {
    chmod(name, mode)
    opens += 1
    if (opens === 1) other.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; PRAGMA user_version = 0')
    else other.close()
  })
  syncBuiltinESMExports()
  t.after(() => {
    t.mock.restoreAll()
    syncBuiltinESMExports()
  })
  assert.throws(() => openDatabase(path), { message: new RegExp(`^another process has locked ${path}`) })
  const db = openDatabase(path)
  assert.equal(modeOf(db), 'normal')
  assert.equal(db.prepare('PRAGMA busy_timeout').get()?.['timeout'], limits.databaseBusyMs)
  db.close()
})

test('without room for the index of the log, the records are opened for this process alone', (t) => {
  const { path } = stage(t)
  openDatabase(path).close()
  // SQLite does not open an index of the log that is a link.
  symlinkSync('nowhere', `${path}-shm`)
  const db = openDatabase(path)
  assert.equal(modeOf(db), 'exclusive')
  db.close()
})

test('records that are a directory, or a link to nothing, are named when they cannot be opened', (t) => {
  const { path } = stage(t)
  mkdirSync(path)
  const message = new RegExp(`^${path} cannot be opened`)
  assert.throws(() => openDatabase(path), { message })
  rmSync(path, { recursive: true })
  symlinkSync('nowhere/records', path)
  assert.throws(() => openDatabase(path), { message })
})
