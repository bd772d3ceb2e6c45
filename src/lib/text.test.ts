import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cutText, nearest, printable, printableLines } from './text.ts'

test('text from elsewhere cannot steer the terminal', () => {
  assert.equal(printable('a\u001B[2Jb\u0007c\nd\u009B31me'), 'ab c de')
  assert.equal(printable('\u001B]0;title\u0007\u009B1mx'), 'x')
})

test('text from elsewhere cannot change the order in which a line is read', () => {
  assert.equal(printable('a\u202Egnp.exe\u202C b\u2066c\u2069\u200E\u200F\u061C'), 'agnp.exe bc')
  assert.equal(printableLines('\u202Eone\n\u2067two'), 'one\ntwo')
  assert.equal(printable('\u05D0\u05D1 \u0627'), '\u05D0\u05D1 \u0627', 'letters stay')
})

test('lines from elsewhere stay lines, and steer nothing either', () => {
  assert.equal(printableLines('one\r\n\u001B[31mtwo\u001B[0m\r\r\nthree\r50%\u0007'), 'one\ntwo\nthree 50% ')
  assert.equal(printableLines('\u001B]52;c;cm0gLXJmIC8K\u0007$ \n'), '$ \n')
  assert.equal(printableLines('\u001B]0;a title\nof two lines\u0007$ \n'), '$ \n')
})

test('a text is cut to its bound, and shows that it was', () => {
  assert.equal(cutText('abcde', 5), 'abcde')
  assert.equal(cutText('abcdef', 5), 'abcd…')
})

test('the most similar name is suggested, and none that differs in more than a third', () => {
  assert.equal(nearest('ip', ['id']), 'id')
  assert.equal(nearest('no', ['id']), undefined)
  assert.equal(nearest('memry', ['memxyy', 'memory']), 'memory')
  assert.equal(nearest('pxwyr', ['power']), undefined)
  assert.equal(nearest('memxrx', ['memory']), 'memory')
})
