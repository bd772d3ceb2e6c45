import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { LogEmptying, WalFlush } from './write-ahead-log.ts'
import type { TestContext } from 'node:test'

type Stage = {
  readonly path: string
  readonly flush: WalFlush
  readonly failures: Error[]
  /** Flushes that began and have not ended; a test ends them. */
  readonly running: PromiseWithResolvers<void>[]
}

/** The database is in a directory of its own. With `holds`, a test ends each flush; otherwise it is a real one. */
function stage(t: TestContext, { holds = false } = {}): Stage {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-flush-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'test.db')
  const failures: Error[] = []
  const running: PromiseWithResolvers<void>[] = []
  const datasync = (): Promise<void> => {
    const flush = Promise.withResolvers<void>()
    running.push(flush)
    return flush.promise
  }
  const onFlushFailed = (error: Error): void => void failures.push(error)
  const flush = new WalFlush(path, { onFlushFailed, ...(holds && { datasync }) })
  return { path, flush, failures, running }
}

/** Returns whether a promise is still open after all that could follow from what has happened. */
async function isOpenStill(promise: Promise<unknown>): Promise<boolean> {
  let isOver = false
  void promise.then(() => (isOver = true))
  await new Promise(setImmediate)
  return !isOver
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

test('each commit waits for a flush that began after it, and commits of one moment wait together', async (t) => {
  const { path, flush, running } = stage(t, { holds: true })
  writeFileSync(`${path}-wal`, 'x')
  flush.noteCommit()
  const first = flush.flushed()
  flush.noteCommit()
  const later = [flush.flushed(), flush.flushed()]
  assert.deepEqual([await isOpenStill(first), running.length], [true, 1])
  running[0]?.resolve()
  await first
  // The flush that has ended began before the second commit.
  const bothLater = Promise.all(later)
  assert.deepEqual([await isOpenStill(bothLater), running.length], [true, 2])
  running[1]?.resolve()
  await bothLater
  await flush.flushed()
  assert.equal(running.length, 2, 'nothing was committed since')
  flush.close()
  assert.equal(isOpen(`${path}-wal`), false)
})

test('a write beside the commits is flushed only for callers that wait for all writes', async (t) => {
  const { path, flush, running } = stage(t, { holds: true })
  writeFileSync(`${path}-wal`, 'x')
  flush.noteWrite()
  await flush.flushed()
  assert.equal(running.length, 0)
  const all = flush.flushedAll()
  assert.deepEqual([await isOpenStill(all), running.length], [true, 1])
  running[0]?.resolve()
  await all
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
  const { path, flush, running } = stage(t, { holds: true })
  writeFileSync(`${path}-wal`, 'x')
  flush.noteCommit()
  const flushed = flush.flushed()
  assert.equal(isOpen(`${path}-wal`), true)
  flush.close()
  assert.equal(isOpen(`${path}-wal`), true)
  running[0]?.resolve()
  await flushed
  assert.equal(isOpen(`${path}-wal`), false)
})

/** A database with a log that is to be emptied, and the modes of the checkpoints since the last look. */
function logStage(t: TestContext) {
  const { path } = stage(t)
  const db = new DatabaseSync(path, { timeout: limits.databaseBusyMs })
  const reader = new DatabaseSync(path, { readOnly: true })
  t.after(() => [db, reader].forEach((each) => each.close()))
  db.exec('PRAGMA journal_mode = WAL; CREATE TABLE one (a)')
  let nowMs = 5000
  const timers = new Set<() => void>()
  const checkpoints = t.mock.method(db, 'prepare')
  return {
    log: new LogEmptying(db, {
      now: () => nowMs,
      after: (_ms, callback) => {
        timers.add(callback)
        return () => timers.delete(callback)
      },
    }),
    reader,
    commit: () => db.exec('INSERT INTO one VALUES (1)'),
    /** Ends the pauses under way. */
    pass: () => {
      const ended = [...timers]
      timers.clear()
      for (const end of ended) end()
    },
    wait: (ms: number) => (nowMs += ms),
    modes: () => {
      const modes = checkpoints.mock.calls.map(({ arguments: [sql] }) => /\((\w+)\)/.exec(sql)?.[1])
      checkpoints.mock.resetCalls()
      return modes
    },
    bytes: () => statSync(`${path}-wal`).size,
    pauses: () => timers.size,
  }
}

test('the log of an earlier process is emptied unasked, and later content when it is asked for', (t) => {
  const { log, commit, modes, bytes } = logStage(t)
  commit()
  log.emptyWhereDue()
  assert.deepEqual([modes(), bytes()], [['PASSIVE', 'TRUNCATE'], 0])
  commit()
  log.emptyWhereDue()
  assert.deepEqual(modes(), [])
  assert.notEqual(bytes(), 0)
  log.empty()
  assert.deepEqual([modes(), bytes()], [['PASSIVE', 'TRUNCATE'], 0])
})

test('a log that another process reads is not waited for, and is tried again after a while', (t) => {
  const { log, reader, commit, wait, modes, bytes, pauses } = logStage(t)
  reader.exec('BEGIN; SELECT * FROM one')
  commit()
  log.empty()
  assert.deepEqual(modes(), ['PASSIVE'])
  commit()
  log.emptyWhereDue()
  log.empty()
  wait(limits.stateRetryMs - 1)
  log.emptyWhereDue()
  assert.deepEqual(modes(), [])
  wait(1)
  log.emptyWhereDue()
  assert.deepEqual([modes(), pauses()], [['PASSIVE'], 1])
  reader.exec('COMMIT')
  wait(limits.stateRetryMs)
  log.emptyWhereDue()
  assert.deepEqual([modes(), bytes(), pauses()], [['PASSIVE', 'TRUNCATE'], 0, 0])
})

test('a log that could not be emptied is tried again without another commit, until it is closed', (t) => {
  const { log, reader, commit, pass, modes, bytes } = logStage(t)
  reader.exec('BEGIN; SELECT * FROM one')
  commit()
  log.empty()
  assert.deepEqual(modes(), ['PASSIVE'])
  pass()
  assert.deepEqual(modes(), ['PASSIVE'])
  reader.exec('COMMIT')
  pass()
  assert.deepEqual([modes(), bytes()], [['PASSIVE', 'TRUNCATE'], 0])
  pass()
  assert.deepEqual(modes(), [])
  reader.exec('BEGIN; SELECT * FROM one')
  commit()
  log.empty()
  log.close()
  modes()
  pass()
  assert.deepEqual(modes(), [])
})

test('a log that another process has read to its end costs one wait, and is tried again after a while', (t) => {
  const { log, reader, commit, modes } = logStage(t)
  reader.exec('BEGIN; SELECT * FROM one')
  log.empty()
  assert.deepEqual(modes(), ['PASSIVE', 'TRUNCATE'])
  commit()
  log.emptyWhereDue()
  assert.deepEqual(modes(), [])
})
