import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { Escapes } from './escapes.ts'

/** Reads pieces of typed text. Shows bytes for the guest as text, and everything else as its name in angle brackets. */
function read(...pieces: readonly string[]): string {
  const escapes = new Escapes()
  const typed = pieces.flatMap((piece) => escapes.read(Buffer.from(piece, 'latin1')))
  return typed
    .map((one) => (one.kind === 'bytes' ? Buffer.from(one.bytes).toString('latin1') : `<${one.kind}>`))
    .join('')
}

test('an escape is known at the beginning and after each line end, and nowhere else', () => {
  assert.equal(read('~.'), '<leave>')
  assert.equal(read('ls\r~.'), 'ls\r<leave>')
  assert.equal(read('ls\n~?x'), 'ls\n<help>x')
  assert.equal(read('ls ~.'), 'ls ~.')
  assert.equal(read('\r x~.~?'), '\r x~.~?')
})

test('a tilde waits for the key after it', () => {
  assert.equal(read('~'), '')
  assert.equal(read('~', '.'), '<leave>')
  assert.equal(read('\r', '~', '?', '~', '.'), '\r<help><leave>')
})

test('two tildes are one for the guest, and begin no other escape', () => {
  assert.equal(read('~~'), '~')
  assert.equal(read('~~.'), '~.')
  assert.equal(read('~~~.'), '~~.')
})

test('a tilde before another key was meant for the guest', () => {
  assert.equal(read('~/bin/x\r'), '~/bin/x\r')
  assert.equal(read('~\r~.'), '~\r<leave>')
})

test('what is typed after leaving goes nowhere', () => {
  assert.equal(read('~.rm -rf\r'), '<leave>')
})

test('an answer of the terminal to the guest is not a key: a line begins after it as before', () => {
  const place = '\u001B[30;1R'
  const colour = '\u001B]11;rgb:0000/0000/0000\u001B\\'
  const attributes = '\u001B[?62;4c'
  const [focused, blurred] = ['\u001B[I', '\u001B[O']
  for (const answer of [place, colour, attributes, focused, blurred]) {
    assert.equal(read(`\r${answer}~.`), `\r${answer}<leave>`)
    assert.equal(read(`\r~${answer}.`), `\r${answer}<leave>`)
    assert.equal(read(`\r~?${answer}~.`), `\r<help>${answer}<leave>`)
  }
})

test('a key that is a sequence begins the line like any other', () => {
  const arrow = '\u001B[A'
  assert.equal(read(`\r${arrow}~.`), `\r${arrow}~.`)
  assert.equal(read(`\r~${arrow}~.`), `\r~${arrow}~.`)
  // This only looks like a focus report: those have no parameters.
  assert.equal(read('\r\u001B[1;5O~.'), '\r\u001B[1;5O~.')
  assert.equal(read('\r~\u001Bx~.'), '\r~\u001Bx~.')
  assert.equal(read('\u001B\r~.'), '\u001B\r<leave>')
})

const PLAIN = ['~', '.', '?', '\r', '\n', 'a']
const plainKeys = fc.array(fc.constantFrom(...PLAIN), { maxLength: 30 })
const keys = fc.array(fc.constantFrom(...PLAIN, '\u001B', '[', ']', '1', 'R', 'A', '\u0007', '\\'), {
  maxLength: 30,
})

test('how input is cut into pieces changes nothing', () => {
  fc.assert(fc.property(keys, (typed) => assert.equal(read(...typed), read(typed.join('')))))
})

test('bytes without a tilde pass as they are', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 50 }), (bytes) => {
      const plain = bytes.filter((byte) => byte !== 0x7e)
      const typed = new Escapes().read(plain)
      assert.deepEqual(typed, plain.length === 0 ? [] : [{ kind: 'bytes', bytes: plain }])
    }),
  )
})

test('any bytes get through when each tilde at the start of a line is doubled', () => {
  fc.assert(
    fc.property(plainKeys, (wanted) => {
      const text = wanted.join('')
      assert.equal(read(text.replaceAll(/(^|[\r\n])~/g, '$1~~')), text)
    }),
  )
})
