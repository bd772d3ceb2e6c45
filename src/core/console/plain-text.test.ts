import assert from 'node:assert/strict'
import { test } from 'node:test'
import { logLines } from './plain-text.ts'

const all = { isCut: false, linesMax: 100 }
const linesOf = (text: string, terms: Partial<typeof all> = {}): readonly string[] =>
  logLines(Buffer.from(text), { ...all, ...terms })

test('lines have no escape sequences and no control characters', () => {
  assert.deepEqual(linesOf('\u001b[1;31mred\u001b[0m\u0007\r\n\u001b]0;title\u001b\\x\tend\n'), [
    'red',
    'xend',
  ])
})

test('lines have nothing that changes the order in which they are read', () => {
  assert.deepEqual(linesOf('\u202Ekcits\u202C \u2066a\u2069\u200E\u200F\u061C \u05D0\n'), ['kcits a \u05D0'])
})

test('a carriage return alone begins a line, and empty lines stay', () => {
  assert.deepEqual(linesOf('10%\r20%\r\n\r\nlogin: '), ['10%', '20%', '', 'login: '])
  assert.deepEqual(linesOf(''), [])
})

test('the last lines are returned, and the first is left out if it may be half of one', () => {
  assert.deepEqual(linesOf('a\nb\nc\n', { linesMax: 2 }), ['b', 'c'])
  assert.deepEqual(linesOf('alf\nb\n', { isCut: true }), ['b'])
  assert.deepEqual(linesOf('half a line', { isCut: true }), ['half a line'])
})

test('bytes that are no UTF-8 do not stop it', () => {
  assert.deepEqual(logLines(Uint8Array.of(0xff, 0x61, 0x0a), all), ['\ufffda'])
})
