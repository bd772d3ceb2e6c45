import assert from 'node:assert/strict'
import { test } from 'node:test'
import { controlOf, textOfKey } from './keys.ts'

test('Ctrl makes a control character of a letter, and of the signs around the capitals', () => {
  const made = ['c', 'C', 'd', 'z', '@', '[', '_'].map(controlOf)
  assert.deepEqual(made, ['\x03', '\x03', '\x04', '\x1a', '\0', '\x1b', '\x1f'])
})

test('Ctrl has no meaning for other texts', () => {
  for (const text of ['', '1', 'ü', '\r', 'ab', '\x1b[A']) assert.equal(controlOf(text), undefined, text)
})

test('cursor keys have the form that the program in the guest asked for', () => {
  assert.equal(textOfKey('up', false), '\x1b[A')
  assert.equal(textOfKey('left', true), '\x1bOD')
  assert.equal(textOfKey('escape', true), '\x1b')
  assert.equal(textOfKey('tab', false), '\t')
})
