import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { ConsoleHistory } from './console-history.ts'

/** Returns how much of a mapped file is in the memory of this process, KiB (proc_pid_smaps(5)). */
function residentKib(path: string): number {
  const [, mapped = ''] = readFileSync('/proc/self/smaps', 'utf8').split(path)
  return Number(/^Rss: +(\d+) kB/m.exec(mapped)?.[1])
}

test('a history is in memory only while it is used, and keeps its output', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const directory = mkdtempSync(join(tmpdir(), 'quiet-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'web-1')
  const said = 'all work and no play\r\n'.repeat(limits.consoleHistoryBytes / 16)
  const history = ConsoleHistory.create(path)
  history.ring.write(Buffer.from(said))
  t.mock.timers.tick(limits.consoleQuietMs)
  assert.ok(residentKib(path) > 200, 'it was used until now')
  t.mock.timers.tick(limits.consoleQuietMs)
  assert.equal(residentKib(path), 0)
  history.ring.write(Buffer.from('more'))
  const { bytes } = history.ring.since(0)
  assert.equal(Buffer.from(bytes).toString(), `${said}more`.slice(-limits.consoleHistoryBytes))
  t.mock.timers.tick(2 * limits.consoleQuietMs)
  assert.equal(residentKib(path), 0, 'it is taken out after each use')
})

test('a history that was released is left alone', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const directory = mkdtempSync(join(tmpdir(), 'quiet-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const history = ConsoleHistory.create(join(directory, 'web-1'))
  history.ring.write(Buffer.from('kept'))
  history.release()
  t.mock.timers.tick(3 * limits.consoleQuietMs)
  assert.equal(Buffer.from(history.ring.since(0).bytes).toString(), 'kept')
})

test('V8 takes no history for memory of the process, and so does not collect garbage because of it', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'quiet-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const before = process.memoryUsage().external
  const histories = Array.from({ length: 16 }, (_, index) =>
    ConsoleHistory.create(join(directory, `web-${index}`)),
  )
  assert.ok(process.memoryUsage().external - before < histories.length * 16 * 1024)
})
