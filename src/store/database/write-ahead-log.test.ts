import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { WalFlush } from './write-ahead-log.ts'
import type { TestContext } from 'node:test'

function stage(t: TestContext): { path: string; flush: WalFlush; failures: Error[] } {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-flush-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'test.db')
  const failures: Error[] = []
  return { path, flush: new WalFlush(path, { onFlushFailed: (error) => failures.push(error) }), failures }
}

/** Returns whether this process has the file open. */
const isOpen = (path: string): boolean =>
  readdirSync('/proc/self/fd').some((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === path
    } catch {
      return false
    }
  })

test('if nothing was committed there is nothing to flush, and no log is needed', async (t) => {
  await stage(t).flush.flushed()
})

test('each commit waits for a flush, and commits of one moment wait together', async (t) => {
  const { path, flush } = stage(t)
  writeFileSync(`${path}-wal`, 'x')
  flush.noteCommit()
  const first = flush.flushed()
  flush.noteCommit()
  await Promise.all([first, flush.flushed(), flush.flushed()])
  await flush.flushed()
  flush.close()
})

test('a flush that failed is reported once and not tried again: what came before it may be lost', async (t) => {
  const { path, flush, failures } = stage(t)
  flush.noteCommit()
  await assert.rejects(flush.flushed(), /what was promised last may be lost/)
  writeFileSync(`${path}-wal`, 'x')
  await assert.rejects(flush.flushed(), /what was promised last may be lost/)
  assert.equal(failures.length, 1)
})

test('an end in the middle of a flush lets it finish, and leaves no file open', async (t) => {
  const { path, flush } = stage(t)
  writeFileSync(`${path}-wal`, 'x')
  flush.noteCommit()
  const flushed = flush.flushed()
  assert.equal(isOpen(`${path}-wal`), true)
  flush.close()
  await flushed
  assert.equal(isOpen(`${path}-wal`), false)
})
