import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { MonitorRefusal } from '../monitors/monitor-error.ts'
import { doThreadsSleep } from './monitor-threads.ts'

const PROCESS = 100

/** Makes a /proc with one process, whose threads have these states. */
function procOf(t: TestContext, states: readonly string[]): string {
  const proc = mkdtempSync(join(tmpdir(), 'vmh-'))
  t.after(() => rmSync(proc, { recursive: true }))
  for (const [index, state] of states.entries()) {
    const folder = join(proc, String(PROCESS), 'task', String(PROCESS + index))
    mkdirSync(folder, { recursive: true })
    // A thread that has ended is still in a list that was read before.
    if (state !== 'ended')
      writeFileSync(join(folder, 'stat'), `${PROCESS + index} (CPU 0) S (x) ${state} 1 2 3\n`)
  }
  return proc
}

for (const [states, expected] of [
  [['S', 'S'], true],
  [['S', 'I', 'ended'], true],
  [['S', 'R'], false],
  // It waits for the disk.
  [['D', 'S'], false],
] as const)
  test(`threads in the states ${states.join(' ')} ${expected ? 'sleep' : 'do not all sleep'}`, (t) => {
    assert.equal(doThreadsSleep(PROCESS, procOf(t, states)), expected)
  })

test('a process that has ended has no thread at work', (t) => {
  assert.equal(doThreadsSleep(PROCESS + 1, procOf(t, ['R'])), true)
})

test('this process, which asks, does not sleep', () => {
  assert.equal(doThreadsSleep(process.pid), false)
})

test('a process with more threads than a monitor has is refused', (t) => {
  const proc = procOf(
    t,
    Array.from({ length: 513 }, () => 'S'),
  )
  assert.throws(() => doThreadsSleep(PROCESS, proc), MonitorRefusal)
})
