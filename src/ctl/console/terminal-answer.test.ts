import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { withoutQuestions } from './terminal-answer.ts'

const shown = (history: string): string =>
  Buffer.from(withoutQuestions(Buffer.from(history, 'latin1'))).toString('latin1')

test('what was asked of a terminal is not asked again', () => {
  const questions = [
    ...['\u0005', '\u001BZ', '\u001B[c', '\u001B[0c', '\u001B[>c', '\u001B[=c', '\u001B[5n', '\u001B[6n'],
    ...['\u001B[?6n', '\u001B[1x', '\u001B[>q', '\u001B[?2026$p', '\u001B[18t', '\u001B[21t', '\u001B[?u'],
    ...['\u001B]11;?\u0007', '\u001B]10;?\u001B\\', '\u001BP+q544e\u001B\\', '\u001BP$qm\u001B\\'],
  ]
  for (const question of questions) assert.equal(shown(`a${question}b`), 'ab', JSON.stringify(question))
})

test('everything else of a history is shown as it was', () => {
  const history =
    '\u001B[1;31mred\u001B[0m\u001B[2J\u001B[?1049h\u001B[10;20H\u001B[3 q\u001B]0;what?\u0020\u0007\u001B[8;24;80t\r\n\u001B[!p'
  assert.equal(shown(history), history)
})

test('bytes without escapes are untouched, whatever they are', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      const plain = bytes.filter((byte) => byte !== 0x1b && byte !== 0x05)
      assert.deepEqual(Uint8Array.from(withoutQuestions(plain)), plain)
    }),
  )
})
