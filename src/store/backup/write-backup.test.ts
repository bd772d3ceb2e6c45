import assert from 'node:assert/strict'
import fs, { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import { limits } from '../../config/limits.ts'
import { lockStateDirectory } from '../database/open-database.ts'
import { readBackup } from './read-backup.ts'
import { writeBackup } from './write-backup.ts'
import type { TestContext } from 'node:test'

const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }
const content = { about: { madeAtMs: 5000, version: '1.2.3', hostId: 'host-1' }, files: [] }

function staged(t: TestContext) {
  const stage = new StoreStage(t)
  stage.insertVm('web-1', image)
  const { directory } = stage
  mkdirSync(`${directory}/far`)
  return {
    stage,
    directory,
    target: `${directory}/far/b.vmhostd`,
    left: () => readdirSync(`${directory}/far`),
    beside: () => readdirSync(`${directory}/backup.new`),
  }
}

function mocked(
  t: TestContext,
  name: 'writeSync' | 'mkdirSync' | 'renameSync' | 'statfsSync',
  call: () => unknown,
): void {
  t.mock.method(fs, name, call)
  syncBuiltinESMExports()
  t.after(() => {
    t.mock.restoreAll()
    syncBuiltinESMExports()
  })
}

test('nothing holds the log of the records while the target is written, so a target that hangs does not let it grow', (t) => {
  const { stage, directory, target, left, beside } = staged(t)
  const busy: unknown[] = []
  mocked(t, 'writeSync', () => {
    stage.insertVm('web-2', image)
    const db = new DatabaseSync(`${directory}/vmhostd.db`)
    busy.push(db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.['busy'])
    db.close()
    throw new Error('the target failed')
  })
  assert.throws(() => writeBackup(directory, target, content), /cannot be copied to .*b\.vmhostd$/)
  assert.deepEqual(busy, [0])
  assert.deepEqual([left(), beside()], [[], ['lock.db']])
})

test('a backup removes what a killed one has left beside the records, and leaves no copy there', (t) => {
  const { directory, target, left, beside } = staged(t)
  mkdirSync(`${directory}/backup.new/copy`, { recursive: true })
  for (const name of ['vmhostd.db', 'vmhostd.db.new', 'vmhostd.db.new-journal'])
    writeFileSync(`${directory}/backup.new/copy/${name}`, 'half')
  writeFileSync(`${target}.new`, 'half')
  writeBackup(directory, target, content)
  assert.deepEqual(readBackup(target).about, content.about)
  assert.deepEqual([left(), beside()], [['b.vmhostd'], ['lock.db']])
})

test('a second backup does not begin while the first is at work', (t) => {
  const { directory, target } = staged(t)
  mkdirSync(`${directory}/backup.new`)
  const first = lockStateDirectory(`${directory}/backup.new`)
  assert.throws(
    () => writeBackup(directory, target, content),
    (error: Error) => /another backup .* end it/.test((error.cause as Error).message),
  )
  assert.ok(!existsSync(target))
  first.release()
  writeBackup(directory, target, content)
})

test('a state directory that takes no copy can be backed up', (t) => {
  const { directory, target } = staged(t)
  mocked(t, 'mkdirSync', () => {
    throw Object.assign(new Error('EROFS: read-only file system, mkdir'), { code: 'EROFS' })
  })
  writeBackup(directory, target, content)
  assert.deepEqual(readBackup(target).about, content.about)
})

test('a state directory that fills up while the copy is made keeps nothing of it, and is backed up', (t) => {
  const { directory, target, left, beside } = staged(t)
  const full = (): never => {
    t.mock.restoreAll()
    syncBuiltinESMExports()
    throw Object.assign(new Error('ENOSPC: no space left on device, rename'), { code: 'ENOSPC' })
  }
  mocked(t, 'renameSync', full)
  writeBackup(directory, target, content)
  assert.deepEqual([left(), beside()], [['b.vmhostd'], ['lock.db']])
  lockStateDirectory(`${directory}/backup.new`).release()
})

test('a backup leaves the daemon room in the state directory', (t) => {
  const { directory, target } = staged(t)
  mocked(t, 'statfsSync', () => ({ bavail: limits.backupSpareBytes / 4096, bsize: 4096 }))
  writeBackup(directory, target, content)
  assert.deepEqual(readBackup(target).about, content.about)
  assert.ok(!existsSync(`${directory}/backup.new`))
})
