import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { refuseCall } from '../../test/refuse-call.ts'
import { writeNewFiles } from './new-files.ts'
import type { TestContext } from 'node:test'

// As vfat and exfat do, for all tests of this file.
refuseCall('link', 'EPERM')

function directoryOf(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'new-files-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const file = (name: string) => ({ path: join(directory, name), content: `${name} as a whole`, mode: 0o600 })
  return { directory, file }
}

test('a file system without links gets all files, with their modes and nothing beside them', (t) => {
  const { directory, file } = directoryOf(t)
  writeNewFiles([file('one.key'), file('one.crt')])
  assert.deepEqual(readdirSync(directory).toSorted(), ['one.crt', 'one.key'])
  assert.equal(readFileSync(file('one.key').path, 'utf8'), 'one.key as a whole')
  assert.equal(statSync(file('one.key').path).mode & 0o777, 0o600)
})

test('there too no file is replaced, and none is left of those that came before it', (t) => {
  const { directory, file } = directoryOf(t)
  writeFileSync(file('one.crt').path, 'of another program')
  assert.throws(() => writeNewFiles([file('one.key'), file('one.crt')]), { code: 'EEXIST' })
  assert.deepEqual(readdirSync(directory), ['one.crt'])
  assert.equal(readFileSync(file('one.crt').path, 'utf8'), 'of another program')
  mkdirSync(file('two.crt').path)
  assert.throws(() => writeNewFiles([file('two.key'), file('two.crt')]), { code: 'EEXIST' })
  assert.deepEqual(readdirSync(directory).toSorted(), ['one.crt', 'two.crt'])
})
