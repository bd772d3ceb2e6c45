import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseClose } from '../../client/console-messages.ts'
import { closes } from '../../core/console/close.ts'
import { afterClose } from './status.ts'
import type { CloseCode } from '../../core/console/close.ts'

const after = (mode: 'tty' | 'ssh', code: CloseCode, words = '') =>
  afterClose(mode, parseClose(closes[code].status, words === '' ? code : `${code}: ${words}`))

test('a serial console goes on after a restart of the daemon, a broken connection, and a page that was slow', () => {
  assert.deepEqual(after('tty', 'daemon_stops'), { kind: 'again', because: 'The daemon is away' })
  assert.deepEqual(after('tty', 'viewer_behind'), { kind: 'again', because: closes.viewer_behind.title })
  assert.deepEqual(afterClose('tty', parseClose(1006, '')), {
    kind: 'again',
    because: 'The connection broke',
  })
})

test('every other end is final, and is explained in words', () => {
  const passing = new Set<string>(['daemon_stops', 'viewer_behind'])
  for (const code of Object.keys(closes).filter((known) => !passing.has(known)) as CloseCode[])
    assert.deepEqual(after('tty', code), { kind: 'ended', words: closes[code].title })
  assert.equal(afterClose('tty', parseClose(1009, '')).kind, 'ended')
})

test('a shell over SSH is gone with its connection, however that ended', () => {
  for (const code of Object.keys(closes) as CloseCode[]) assert.equal(after('ssh', code).kind, 'ended')
  assert.deepEqual(after('ssh', 'shell_ended', 'exit status 3'), {
    kind: 'ended',
    words: 'The shell has ended: exit status 3',
  })
  assert.deepEqual(afterClose('ssh', parseClose(1006, '')), { kind: 'ended', words: 'The connection broke' })
})

test('a code that the page does not know is shown as it is', () => {
  assert.deepEqual(afterClose('tty', parseClose(4000, 'later_code: in words')), {
    kind: 'ended',
    words: 'later_code: in words',
  })
})
