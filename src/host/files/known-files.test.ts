import assert from 'node:assert/strict'
import { mkdtempSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { KnownFiles } from './known-files.ts'
import type { TestContext } from 'node:test'

/** A file, and the texts that were parsed of it. */
function stage(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-known-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const parsed: string[] = []
  const files = new KnownFiles((text) => {
    parsed.push(text)
    if (text === 'damaged') throw new Error('it is damaged')
    return text
  })
  return { path: join(directory, 'note'), files, parsed }
}

test('a file that stays the same is read once', async (t) => {
  const { path, files, parsed } = stage(t)
  writeFileSync(path, 'one')
  for (const _time of [1, 2, 3]) assert.equal(await files.read(path), 'one')
  assert.deepEqual(parsed, ['one'])
})

test('a file that was replaced, or written in place with its old times, is read again', async (t) => {
  const { path, files, parsed } = stage(t)
  writeFileSync(path, 'one')
  utimesSync(path, 1, 1)
  await files.read(path)
  writeFileSync(`${path}.new`, 'two')
  utimesSync(`${path}.new`, 1, 1)
  renameSync(`${path}.new`, path)
  assert.equal(await files.read(path), 'two')
  const { ctimeNs } = statSync(path, { bigint: true })
  // The kernel's clock of changes ticks every few milliseconds.
  do {
    writeFileSync(path, 'six')
    utimesSync(path, 1, 1)
  } while (statSync(path, { bigint: true }).ctimeNs === ctimeNs)
  assert.equal(await files.read(path), 'six')
  assert.deepEqual(parsed, ['one', 'two', 'six'])
})

test('what cannot be parsed is read again each time, and a file that is gone is an error', async (t) => {
  const { path, files, parsed } = stage(t)
  writeFileSync(path, 'damaged')
  for (const _time of [1, 2]) await assert.rejects(files.read(path), /it is damaged/)
  assert.deepEqual(parsed, ['damaged', 'damaged'])
  rmSync(path)
  await assert.rejects(files.read(path), { code: 'ENOENT' })
})

test('a result that is not to be kept is read again each time', async (t) => {
  const { path } = stage(t)
  let reads = 0
  const files = new KnownFiles(
    (text) => `${text} ${(reads += 1)}`,
    (value) => value !== 'damaged 2',
  )
  writeFileSync(path, 'whole')
  await files.read(path)
  writeFileSync(`${path}.new`, 'damaged')
  renameSync(`${path}.new`, path)
  const seen = [await files.read(path), await files.read(path), await files.read(path)]
  assert.deepEqual(seen, ['damaged 2', 'damaged 3', 'damaged 3'])
})

test('a file that was forgotten is read again', async (t) => {
  const { path, files, parsed } = stage(t)
  writeFileSync(path, 'one')
  await files.read(path)
  files.forget(path)
  await files.read(path)
  assert.deepEqual(parsed, ['one', 'one'])
})
