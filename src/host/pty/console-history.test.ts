import assert from 'node:assert/strict'
import {
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { ConsoleHistory } from './console-history.ts'
import type { TestContext } from 'node:test'

const text = (history: ConsoleHistory, since = 0): string =>
  Buffer.from(history.ring.since(since).bytes).toString('latin1')

function pathIn(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'history-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return join(directory, 'web-1')
}

test('the next process has the same session with all of its output', (t) => {
  const path = pathIn(t)
  const first = ConsoleHistory.create(path)
  first.ring.write(Buffer.from('one '))
  const second = ConsoleHistory.open(path)
  assert.equal(second.session, first.session)
  assert.equal(text(second), 'one ')
  second.ring.write(Buffer.from('two'))
  assert.equal(text(ConsoleHistory.open(path)), 'one two')
})

test('the next process finds bytes that were read but not counted yet', (t) => {
  const path = pathIn(t)
  const first = ConsoleHistory.create(path)
  first.ring.write(Buffer.from('one '))
  first.ring.free().set(Buffer.from('two'))
  assert.equal(text(first), 'one ')
  const second = ConsoleHistory.open(path)
  assert.equal(text(second), 'one two')
  assert.equal(second.ring.end, 7)
})

test('a history that has wrapped around continues where it was', (t) => {
  const path = pathIn(t)
  const first = ConsoleHistory.create(path)
  const said = Array.from({ length: 60_000 }, (_, line) => `${line}\n`).join('')
  first.ring.write(Buffer.from(said))
  const second = ConsoleHistory.open(path)
  assert.equal(second.ring.end, said.length)
  assert.equal(text(second), said.slice(-limits.consoleHistoryBytes))
})

test('the file has its full size from the start, and only its owner can open it', (t) => {
  const path = pathIn(t)
  ConsoleHistory.create(path)
  const { size, blocks, mode } = statSync(path)
  assert.ok(blocks * 512 >= size && size > limits.consoleHistoryBytes)
  assert.equal(mode & 0o777, 0o600)
})

test('each session has its own id, and replaces the one before', (t) => {
  const path = pathIn(t)
  const first = ConsoleHistory.create(path)
  first.ring.write(Buffer.from('old'))
  const second = ConsoleHistory.create(path)
  assert.notEqual(second.session, first.session)
  assert.equal(text(ConsoleHistory.open(path)), '')
  assert.equal(text(first), 'old')
})

test('a history that was released can still be read, and is no longer in the file', (t) => {
  const path = pathIn(t)
  const history = ConsoleHistory.create(path)
  history.ring.write(Buffer.from('kept'))
  history.release()
  history.release()
  assert.equal(text(history), 'kept')
  history.ring.write(Buffer.from(', and more'))
  assert.equal(text(history), 'kept, and more')
  assert.equal(text(ConsoleHistory.open(path)), 'kept')
})

const damages: readonly [what: string, damage: (path: string) => void, message: RegExp][] = [
  ['an empty file', (path) => truncateSync(path, 0), /is 0 bytes long, not \d+/],
  ['a file cut short', (path) => truncateSync(path, 4096), /is 4096 bytes long/],
  ['a file without the magic', (path) => patch(path, 0, Buffer.from('vmhostXX')), /no magic/],
  ['a file of another version', (path) => patch(path, 8, Buffer.of(9)), /of version 9/],
  ['a file for other reads', (path) => patch(path, 12, Buffer.of(1, 0)), /guards of 1 bytes/],
  ['an end before the beginning', (path) => patch(path, 16, Buffer.alloc(8, 0xff)), /ends at -1/],
  ['an end that no number holds', (path) => patch(path, 22, Buffer.of(0xff)), /ends at \d{10}/],
  ['a file without a session', (path) => patch(path, 24, Buffer.from('XY')), /no session id/],
]

function patch(path: string, at: number, bytes: Buffer): void {
  const all = readFileSync(path)
  bytes.copy(all, at)
  writeFileSync(path, all)
}

for (const [what, damage, message] of damages) {
  test(`${what} is refused as a history, with the reason`, (t) => {
    const path = pathIn(t)
    ConsoleHistory.create(path).release()
    damage(path)
    assert.throws(() => ConsoleHistory.open(path), message)
  })
}

test('if there is no file the error says so, and a link is not followed', (t) => {
  const path = pathIn(t)
  assert.throws(
    () => ConsoleHistory.open(path),
    (error) => hasErrno(error, 'ENOENT'),
  )
  ConsoleHistory.create(`${path}-other`)
  symlinkSync(`${path}-other`, path)
  assert.throws(
    () => ConsoleHistory.open(path),
    (error) => hasErrno(error, 'ELOOP'),
  )
})
