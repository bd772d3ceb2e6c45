import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { recordOf } from '../../../test/record.ts'
import { deletionDueMs, hasEnded, isFinal } from '../vm/exit-policy.ts'
import { EXIT_CAUSES } from '../vm/last-exit.ts'
import { judgeExit } from './exit.ts'
import type { ExitPolicy } from '../desired.ts'
import type { Generation } from '../ids.ts'
import type { VmRecord } from '../vm/record.ts'

const clean = { kind: 'exited', because: 'the monitor ended', ranMs: 6000, isClean: true, status: 0 } as const
const judged = (console: string) => judgeExit(clean, Buffer.from(console), 10_000)

for (const [console, cause] of [
  ['[ 12.3] reboot: Power down\r\n', 'powered_off'],
  ['[ 12.3] reboot: System halted\r\n', 'powered_off'],
  ['[ 12.3] reboot: Restarting system\r\n', 'rebooted'],
  ['[ 1.0] Kernel panic - not syncing: VFS\r\n[ 1.1] Call Trace:\r\n[ 1.1]  dump_stack\r\n', 'panicked'],
  ['login: \r\n', 'unknown'],
  ['', 'unknown'],
  ['\u001b[0m\u001b[1mreboot: Power\u001b[K down\r\n', 'powered_off'],
] as const) {
  test(`a clean end after ${JSON.stringify(console)} is ${cause}`, () => {
    assert.equal(judged(console).cause, cause)
  })
}

test('the last of several words counts', () => {
  assert.equal(judged('reboot: Restarting system\nreboot: Power down\n').cause, 'powered_off')
})

test('a monitor that failed is the cause, whatever the guest wrote', () => {
  const failed = { ...clean, isClean: false, status: 149 }
  const { cause, because, exitStatus } = judgeExit(failed, Buffer.from('reboot: Power down\n'), 1)
  assert.deepEqual([cause, because, exitStatus], ['monitor_failed', 'the monitor ended', 149])
})

test('a guest that went with its host ended for that reason, whatever it wrote', () => {
  const because = 'the host went down without saving the guest'
  const lost = judgeExit({ kind: 'lost', because, ranMs: 6000 }, Buffer.from('reboot: Power down\n'), 1)
  const consoleLines = ['reboot: Power down']
  assert.deepEqual(lost, { atMs: 1, ranMs: 6000, consoleLines, cause: 'host_down', because })
})

test('the last lines are shown, each without control characters and within its bound', () => {
  const lines = Array.from({ length: 40 }, (_, index) => `line ${index}\u0007\t\u001b]0;title\u0007`)
  const { consoleLines } = judged([...lines, 'x'.repeat(1000)].join('\r\n'))
  assert.equal(consoleLines.length, limits.exitConsoleLines)
  assert.equal(consoleLines.at(-2), 'line 39')
  assert.equal(consoleLines.at(-1)?.length, limits.exitConsoleLineLength)
})

const withPolicy = (exit: ExitPolicy | undefined, changes: Partial<VmRecord> = {}): VmRecord => {
  const record = recordOf(changes)
  return { ...record, desired: { ...record.desired, ...(exit === undefined ? {} : { exit }) } }
}

for (const [restartPolicy, final] of [
  [undefined, []],
  ['always', []],
  ['on_failure', ['powered_off', 'unknown']],
  ['never', ['powered_off', 'panicked', 'monitor_failed', 'unknown']],
] as const) {
  test(`under the policy ${restartPolicy ?? 'of before'} an end is final after: ${final.join(', ')}`, () => {
    const record = withPolicy(restartPolicy && { restartPolicy })
    assert.deepEqual(
      EXIT_CAUSES.filter((cause) => isFinal(record, cause)),
      final,
    )
  })
}

const stopped = { state: 'stopped', sinceMs: 5000 } as const
const ended = { ...stopped, endedAtPower: 2 as Generation }

test('a newer request for power ends the rest of a guest that ended', () => {
  assert.equal(hasEnded(recordOf({ observed: ended })), true)
  assert.equal(hasEnded(recordOf({ observed: ended, powerGeneration: 3 as Generation })), false)
})

test('a VM is deleted some time after its stop, and at once after its end if it should be', () => {
  const later: ExitPolicy = { restartPolicy: 'always', deleteAfterSeconds: 60 }
  const atEnd: ExitPolicy = { restartPolicy: 'never', deleteAfterSeconds: 60, deleteOnExit: true }
  const dueMs = (exit: ExitPolicy, changes: Partial<VmRecord>): number | undefined =>
    deletionDueMs(withPolicy(exit, changes))
  assert.equal(dueMs(later, { observed: stopped }), 65_000)
  assert.equal(dueMs(atEnd, { observed: stopped }), 65_000)
  assert.equal(dueMs(atEnd, { observed: ended }), 5000)
  assert.equal(dueMs(later, {}), undefined, 'it runs')
  assert.equal(dueMs(atEnd, { observed: ended, metadata: { labels: {}, protected: true } }), undefined)
})
