import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../core/errors.ts'
import { createLog } from './logger.ts'
import { warnOfFault } from './log.ts'

function stage() {
  const lines: string[] = []
  const log = createLog({ level: 'debug', priorityPrefix: false, write: (line) => lines.push(line) })
  return { log, lines }
}

test('a fault is logged with its code, its causes and the fields of the caller', () => {
  const { log, lines } = stage()
  const fault = new HostFault('storage_failed', 'removing a part', { cause: new Error('EIO') })
  warnOfFault(log, fault, 'part not removed', { part: 3 })
  assert.equal(lines.length, 1)
  const { part, code, error, message } = JSON.parse(lines[0] ?? '') as Record<string, unknown>
  assert.deepEqual(
    { part, code, error, message },
    {
      part: 3,
      code: 'storage_failed',
      error: { message: 'removing a part: EIO' },
      message: 'part not removed',
    },
  )
})

test('any other error is a bug, and is thrown', () => {
  const { log, lines } = stage()
  const bug = new TypeError('x is undefined')
  assert.throws(
    () => warnOfFault(log, bug, 'part not removed'),
    (error) => error === bug,
  )
  assert.deepEqual(lines, [])
})
