import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { lockStateDirectory } from './open-database.ts'

test('a lock file that is damaged is named, and may be removed', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-lock-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'lock.db')
  writeFileSync(path, 'not a database'.repeat(999))
  assert.throws(() => lockStateDirectory(directory), {
    message: new RegExp(`^${path} is damaged: remove it`),
  })
  rmSync(path)
  lockStateDirectory(directory).release()
})
