import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { cloneFile, copySparsely } from './clone-file.ts'

const never = new AbortController().signal

function folderOf(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'clone-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return directory
}

test('a clone is a separate file with the same content, with or without reflinks', async (t) => {
  const folder = folderOf(t)
  const [from, to] = [join(folder, 'from'), join(folder, 'to')]
  writeFileSync(from, 'content')
  await cloneFile(from, to, never)
  writeFileSync(from, 'changed')
  assert.equal(readFileSync(to, 'utf8'), 'content')
  assert.notEqual(statSync(from).ino, statSync(to).ino)
})

test('an existing file is not replaced by a clone', async (t) => {
  const folder = folderOf(t)
  const [from, to] = [join(folder, 'from'), join(folder, 'to')]
  for (const path of [from, to]) writeFileSync(path, path)
  await assert.rejects(cloneFile(from, to, never), { code: 'EEXIST' })
  assert.equal(readFileSync(to, 'utf8'), to)
})

test('a missing original is reported as missing', async (t) => {
  const folder = folderOf(t)
  await assert.rejects(cloneFile(join(folder, 'missing'), join(folder, 'to'), never), { code: 'ENOENT' })
})

test('a copy ends when it is aborted, however long the original is', async (t) => {
  const target = join(folderOf(t), 'to')
  const controller = new AbortController()
  const reason = new Error('the VM is being deleted')
  const copying = copySparsely('/dev/zero', target, controller.signal)
  while (!existsSync(target)) await new Promise(setImmediate)
  controller.abort(reason)
  await assert.rejects(copying, reason)
})
