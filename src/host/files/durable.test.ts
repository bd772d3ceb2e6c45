import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { orRemove, publishFirst, sync, writeSynced } from './durable.ts'
import type { TestContext } from 'node:test'

const never = new AbortController().signal

/** A finished file without its name. */
function stage(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'durable-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const [temporary, path] = [join(directory, 'temporary'), join(directory, 'file')]
  writeFileSync(temporary, 'new')
  return { temporary, path }
}

test('a first publication gives the file its name alone, and never replaces another file', async (t) => {
  const { temporary, path } = stage(t)
  assert.equal(await publishFirst({ temporary, path, signal: never, sync }), true)
  assert.equal(existsSync(temporary), false)
  writeFileSync(temporary, 'newer')
  assert.equal(await publishFirst({ temporary, path, signal: never, sync }), false)
  assert.equal(readFileSync(path, 'utf8'), 'new')
})

test('a publication that is aborted while its file goes to the disk gives no name', async (t) => {
  const { temporary, path } = stage(t)
  const abort = new AbortController()
  const aborting = async (): Promise<void> => abort.abort(new Error('on purpose'))
  await assert.rejects(publishFirst({ temporary, path, signal: abort.signal, sync: aborting }), /on purpose/)
  assert.equal(existsSync(path), false)
})

test('a file that is written for good takes the place of no other', async (t) => {
  const { temporary } = stage(t)
  await assert.rejects(writeSynced(temporary, 'other', { mode: 0o600 }), { code: 'EEXIST' })
  assert.equal(readFileSync(temporary, 'utf8'), 'new')
})

test('work that fails leaves no temporary file, and throws what it threw', async (t) => {
  const { temporary } = stage(t)
  const failure = new Error('on purpose')
  await assert.rejects(
    orRemove(temporary, () => Promise.reject(failure)),
    failure,
  )
  assert.equal(existsSync(temporary), false)
  await assert.rejects(
    orRemove(temporary, () => Promise.reject(failure)),
    failure,
  )
})
