import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { ageStore } from '../../../test/age-store.ts'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import { limits } from '../../config/limits.ts'
import { SCHEMA_VERSION } from './migrations.ts'
import { openDatabase } from './open-database.ts'
import { copiesIn, schemaCopiesOf, schemaCopyPath } from './schema-copies.ts'

const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }

function read<T>(path: string, use: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    return use(db)
  } finally {
    db.close()
  }
}

const versionIn = (path: string): unknown =>
  read(path, (db) => db.prepare('PRAGMA user_version').get()?.['user_version'])

test('before its schema changes, the whole database is copied, for root alone', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-1', image)
  const older = SCHEMA_VERSION - 1
  stage.reopen(() => ageStore(stage.directory, older))
  const path = schemaCopyPath(stage.directory, older)
  assert.deepEqual(copiesIn(stage.directory), [{ version: older, path }])
  assert.equal(versionIn(path), older)
  assert.equal(versionIn(`${stage.directory}/vmhostd.db`), SCHEMA_VERSION)
  const ids = read(path, (db) => db.prepare('SELECT id FROM vms').all())
  assert.deepEqual(
    ids.map(({ id }) => id),
    ['web-1'],
  )
  assert.equal(statSync(path).mode & 0o777, 0o600)
  assert.equal(statSync(schemaCopiesOf(stage.directory)).mode & 0o777, 0o700)
  // One file is the whole copy: it needs no log beside it.
  assert.deepEqual(readdirSync(schemaCopiesOf(stage.directory)), [`schema-${older}.db`])
})

test('the daemon is warned before the copy begins, because it may take long', (t) => {
  const stage = new StoreStage(t)
  const { directory } = stage
  const copiesWhenCalled: number[] = []
  const open = (): void => {
    const onUpgrade = (): number => copiesWhenCalled.push(copiesIn(directory).length)
    openDatabase(`${directory}/vmhostd.db`, { onUpgrade }).close()
  }
  stage.reopen(() => {
    open()
    ageStore(directory, SCHEMA_VERSION - 1)
    open()
  })
  assert.deepEqual(copiesWhenCalled, [0])
})

test('the copy that is made is kept, although copies of newer versions are there', (t) => {
  const stage = new StoreStage(t)
  const newer = Array.from({ length: limits.schemaCopiesMax }, (_, n) => SCHEMA_VERSION + n)
  const older = SCHEMA_VERSION - 1
  stage.reopen(() => {
    mkdirSync(schemaCopiesOf(stage.directory))
    for (const version of newer) writeFileSync(schemaCopyPath(stage.directory, version), '')
    ageStore(stage.directory, older)
  })
  assert.deepEqual(
    copiesIn(stage.directory).map(({ version }) => version),
    [...newer.slice(1).toReversed(), older],
  )
})

test('a store that is new, or has the schema of this build, is not copied', (t) => {
  const stage = new StoreStage(t)
  stage.reopen()
  assert.deepEqual(copiesIn(stage.directory), [])
})

test('the copies of the newest versions are kept, and nothing else in their directory is touched', (t) => {
  const stage = new StoreStage(t)
  const versions = Array.from({ length: limits.schemaCopiesMax + 2 }, (_, n) => SCHEMA_VERSION - 1 - n)
  for (const version of versions.toReversed()) stage.reopen(() => ageStore(stage.directory, version))
  writeFileSync(`${schemaCopiesOf(stage.directory)}/notes.txt`, 'mine')
  stage.reopen(() => ageStore(stage.directory, SCHEMA_VERSION - 1))
  assert.deepEqual(
    copiesIn(stage.directory).map(({ version }) => version),
    versions.slice(0, limits.schemaCopiesMax),
  )
  assert.ok(readdirSync(schemaCopiesOf(stage.directory)).includes('notes.txt'))
})

test('a schema does not change if its copy cannot be made', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-1', image)
  const blocked = `${schemaCopyPath(stage.directory, SCHEMA_VERSION - 1)}.new`
  assert.throws(
    () =>
      stage.reopen(() => {
        ageStore(stage.directory, SCHEMA_VERSION - 1)
        mkdirSync(blocked, { recursive: true })
      }),
    /before their schema changes: make room there/,
  )
  assert.equal(versionIn(`${stage.directory}/vmhostd.db`), SCHEMA_VERSION - 1)
  rmSync(schemaCopiesOf(stage.directory), { recursive: true })
  stage.reopen(() => {}, { isClosed: true })
  assert.equal(stage.store.vms.ids().length, 1)
})

test('a copy that is put in the place of the database is the earlier store', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  stage.reopen(() => ageStore(stage.directory, SCHEMA_VERSION - 1))
  const before = stage.store.vms.get(id)
  stage.insertVm('web-2', image)
  stage.reopen(() => {
    const db = `${stage.directory}/vmhostd.db`
    for (const name of [`${db}-wal`, `${db}-shm`]) rmSync(name, { force: true })
    copyFileSync(schemaCopyPath(stage.directory, SCHEMA_VERSION - 1), db)
  })
  assert.deepEqual(stage.store.vms.list({}), [before])
})

test('a copy that a killed process left unfinished is removed by the next one that has the records', (t) => {
  const stage = new StoreStage(t)
  const unfinished = [
    'schema-7.db.new',
    'before-restore-20261129T171147Z-2.db.new',
    'before-restore-1.db-wal.new',
  ]
  const others = ['before-restore-1.db', 'mine.new', 'schema-7.db']
  const copies = schemaCopiesOf(stage.directory)
  stage.reopen(() => {
    mkdirSync(copies)
    for (const name of [...unfinished, ...others]) writeFileSync(`${copies}/${name}`, '')
  })
  assert.deepEqual(readdirSync(copies).toSorted(), others)
})
