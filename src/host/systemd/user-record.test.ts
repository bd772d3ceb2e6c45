import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { UserId, VmId } from '../../core/ids.ts'
import { removeUserRecord, writeUserRecord } from './user-record.ts'

const web = 'web-1' as VmId
const user = 600_001 as UserId

function directoryFor(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'userdb-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return directory
}
const lookUp = (directory: string, id: number): { userName?: string } =>
  JSON.parse(readFileSync(join(directory, `${id}.user`), 'utf8')) as { userName?: string }

test('every user can look up the user of a VM by its id', (t) => {
  const directory = join(directoryFor(t), 'userdb')
  const umask = process.umask(0o077)
  try {
    writeUserRecord(web, user, directory)
  } finally {
    process.umask(umask)
  }
  assert.equal(lookUp(directory, user).userName, 'vmhost-web-1')
  assert.equal(statSync(join(directory, `${user}.user`)).mode & 0o777, 0o644)
  assert.equal(statSync(directory).mode & 0o777, 0o755)
})

test('writing and removing can be repeated, and leave nothing behind', (t) => {
  const directory = directoryFor(t)
  writeUserRecord(web, user, directory)
  writeUserRecord(web, user, directory)
  assert.deepEqual(readdirSync(directory), ['600001.user', 'vmhost-web-1.user'])
  removeUserRecord(web, directory)
  removeUserRecord(web, directory)
  assert.deepEqual(readdirSync(directory), [])
})

test('a user id that passed to another VM stays with it', (t) => {
  const directory = directoryFor(t)
  const other = 'web-2' as VmId
  writeUserRecord(web, user, directory)
  writeUserRecord(other, user, directory)
  assert.equal(lookUp(directory, user).userName, 'vmhost-web-2')
  removeUserRecord(web, directory)
  assert.equal(lookUp(directory, user).userName, 'vmhost-web-2')
})

test('a record that was cut short is removed and can be written again', (t) => {
  const directory = directoryFor(t)
  writeFileSync(join(directory, 'vmhost-web-1.user'), '{"uid":')
  removeUserRecord(web, directory)
  assert.deepEqual(readdirSync(directory), [])
})

test('a record that has no room names its file', (t) => {
  const directory = directoryFor(t)
  const path = join(directory, 'vmhost-web-1.user')
  symlinkSync('/dev/full', path)
  assert.throws(
    () => writeUserRecord(web, user, directory),
    ({ message, cause }: Error) => {
      assert.equal((cause as NodeJS.ErrnoException).code, 'ENOSPC')
      return message === `writing ${path}`
    },
  )
})
