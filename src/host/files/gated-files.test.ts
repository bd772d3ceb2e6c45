import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hungPath } from '../../../test/hung-open.ts'
import { BoundedCalls, NoAnswer } from './bounded-calls.ts'
import { gatedFiles } from './gated-files.ts'
import type { TestContext } from 'node:test'

/** Bound of a call in tests in which one hangs; elsewhere no call is given up. */
const HANGS_MS = 500

function stage(t: TestContext, { places = 2, boundMs = 60_000 } = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'gated-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const calls = new BoundedCalls({ places, boundMs })
  return { directory, calls, files: gatedFiles({ calls, flushes: calls }) }
}

/** Returns how many files this process has open. */
const openFiles = (): number => readdirSync('/proc/self/fd').length

test('an open that is given up leaves no file open when it ends later', async (t) => {
  const { files, calls } = stage(t, { boundMs: HANGS_MS })
  const hung = hungPath(t)
  const before = openFiles()
  await assert.rejects(files.open(hung.path, 'r'), NoAnswer)
  await assert.rejects(files.open(hung.path, 'r'), NoAnswer)
  hung.release()
  const free = (): Promise<boolean> => calls.take(async () => true, { about: [hung.path] })
  while (!(await free().catch(() => false))) await new Promise(setImmediate)
  // The one more file is the writer's end, which the test itself has open.
  assert.equal(openFiles(), before + 1)
})

test('a copy that is given up leaves no file when it ends later', async (t) => {
  const { directory, files, calls } = stage(t, { boundMs: HANGS_MS })
  const hung = hungPath(t)
  const copy = join(directory, 'copy')
  await assert.rejects(files.copyFile(hung.path, copy, constants.COPYFILE_EXCL), NoAnswer)
  hung.release()
  const free = (): Promise<boolean> => calls.take(async () => true, { about: [copy] })
  while (!(await free().catch(() => false))) await new Promise(setImmediate)
  assert.deepEqual(readdirSync(directory), [])
})

test('a file is closed when a given-up call on it ends, and close does not wait for that', async (t) => {
  const { files } = stage(t, { boundMs: HANGS_MS })
  const hung = hungPath(t)
  hung.release()
  const file = await files.open(hung.path, 'r')
  await assert.rejects(file.readText(), NoAnswer)
  const before = openFiles()
  await file.close()
  assert.equal(openFiles(), before)
  hung.end()
  // The writer's end, and the file itself.
  while (openFiles() > before - 2) await new Promise(setImmediate)
})

test('a file is closed when a given-up call on it fails, too', async (t) => {
  const { directory, files } = stage(t, { boundMs: HANGS_MS })
  const path = join(directory, 'fifo')
  execFileSync('mkfifo', [path])
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const file = await files.open(path, 'w')
  // More than a pipe holds (pipe(7)), so it hangs until the reader is gone.
  await assert.rejects(file.writeFile(Buffer.alloc(1024 * 1024)), NoAnswer)
  const before = openFiles()
  await file.close()
  closeSync(reader)
  while (openFiles() > before - 2) await new Promise(setImmediate)
})

test('close returns when the file is closed, and not before, even if a call on it fails meanwhile', async (t) => {
  const { directory, files, calls } = stage(t, { places: 1 })
  const before = openFiles()
  const file = await files.open(directory, 'r')
  const reading = assert.rejects(file.readText(), { code: 'EISDIR' })
  const others = Promise.withResolvers<void>()
  const held = calls.take(() => others.promise)
  let isClosed = false
  const closing = file.close().then(() => (isClosed = true))
  await reading
  await new Promise(setImmediate)
  assert.equal(isClosed, false)
  others.resolve()
  await Promise.all([held, closing])
  assert.equal(openFiles(), before)
})

test('a flush that waits for its place is not lost when the file is closed', async (t) => {
  const { directory, calls } = stage(t)
  const flushes = new BoundedCalls({ places: 1, boundMs: 60_000 })
  const others = Promise.withResolvers<void>()
  const held = flushes.take(() => others.promise)
  const file = await gatedFiles({ calls, flushes }).open(join(directory, 'file'), 'w')
  const flushing = file.sync()
  const closing = file.close()
  await calls.take(async () => {})
  others.resolve()
  await Promise.all([held, flushing, closing])
})

test('a rename that waits for its place asks then whether it may go on', async (t) => {
  const { directory, files, calls } = stage(t, { places: 1 })
  const [from, to] = [join(directory, 'from'), join(directory, 'to')]
  writeFileSync(from, '')
  const { promise, resolve } = Promise.withResolvers<void>()
  const held = calls.take(() => promise)
  let may = true
  const renaming = files.renameIf(from, to, () => may)
  may = false
  resolve()
  assert.equal(await renaming, false)
  await held
  assert.deepEqual(readdirSync(directory), ['from'])
  assert.equal(await files.renameIf(from, to, () => true), true)
  assert.deepEqual(readdirSync(directory), ['to'])
})

test('a file is closed later if calls hang in all places, and close does not wait for that', async (t) => {
  const { directory, files } = stage(t, { places: 1, boundMs: HANGS_MS })
  const path = join(directory, 'file')
  writeFileSync(path, '')
  const [waiting, late] = [await files.open(path, 'r'), await files.open(path, 'r')]
  const before = openFiles()
  const hung = hungPath(t)
  const overdue = assert.rejects(files.open(hung.path, 'r'), NoAnswer)
  // The first waits for the place while it hangs; the second comes when it is known to hang.
  await Promise.all([overdue, waiting.close()])
  await late.close()
  assert.equal(openFiles(), before)
  hung.release()
  // The writer's end is one more.
  while (openFiles() > before - 2 + 1) await new Promise(setImmediate)
})

test('a tree is removed with everything in it, but not what a link in it points to', async (t) => {
  const { directory, files } = stage(t)
  const [tree, other] = [join(directory, 'tree'), join(directory, 'other')]
  for (const path of [join(tree, 'a', 'b'), other]) mkdirSync(path, { recursive: true })
  for (const path of [join(tree, 'a', 'file'), join(other, 'file')]) writeFileSync(path, '')
  symlinkSync(other, join(tree, 'link'))
  for (let round = 0; round < 2; round += 1) await files.removeTree(tree)
  assert.deepEqual([existsSync(tree), existsSync(join(other, 'file'))], [false, true])
  for (let round = 0; round < 2; round += 1) await files.removeFile(join(other, 'file'))
})

test('a tree that something else removes meanwhile is removed, whichever call that is before', async (t) => {
  const { directory, calls } = stage(t)
  const tree = join(directory, 'tree')
  let last = 0
  for (let before = 1; last === 0; before += 1) {
    mkdirSync(join(tree, 'a'), { recursive: true })
    writeFileSync(join(tree, 'a', 'file'), '')
    let count = 0
    const take: typeof calls.take = (call, options) => {
      count += 1
      if (count === before) rmSync(tree, { recursive: true })
      return calls.take(call, options)
    }
    await gatedFiles({ calls: Object.assign(Object.create(calls), { take }), flushes: calls }).removeTree(
      tree,
    )
    assert.equal(existsSync(tree), false)
    if (count < before) last = count
  }
  assert.ok(last > 5, `only ${last} calls`)
})
