import assert from 'node:assert/strict'
import { test } from 'node:test'
import { paintFor, renderTable } from './text.ts'
import type { Sink } from './shell.ts'

const sinkOf = (isTty: boolean, columns = 80): Sink => ({ write() {}, isTty, columns })
const pipe = { sink: sinkOf(false), paint: paintFor(sinkOf(false), undefined) }

test('columns are as wide as their widest cell, and an empty cell is a dash', () => {
  const text = renderTable(['A', 'LONG', 'C'], [['wide cell', '', 'x']], pipe)
  assert.equal(text, 'A          LONG  C\nwide cell  -     x\n')
})

test('on a terminal a line is cut at its edge and says so', () => {
  const sink = sinkOf(true, 40)
  const paint = paintFor(sink, '1')
  const text = renderTable(['NAME', 'ERROR'], [['web-1', 'x'.repeat(100)]], { sink, paint })
  const [, line = ''] = text.split('\n')
  assert.equal(line.length, 40)
  assert.ok(line.endsWith('x…'))
})

test('colours are for terminals, and only if NO_COLOR is not set', () => {
  assert.equal(paintFor(sinkOf(true), undefined)('x', 'red'), '\u001B[31mx\u001B[0m')
  assert.equal(paintFor(sinkOf(true), '')('x', 'red'), '\u001B[31mx\u001B[0m')
  assert.equal(paintFor(sinkOf(true), '1')('x', 'red'), 'x')
  assert.equal(paintFor(sinkOf(false), undefined)('x', 'red'), 'x')
})

test('the dash of an empty cell has no colour', () => {
  const sink = sinkOf(true)
  const rows = [['web-1', { text: '', colour: 'red' as const }]]
  const text = renderTable(['NAME', 'ERROR'], rows, { sink, paint: paintFor(sink, undefined) })
  assert.ok(text.endsWith('\nweb-1  -\n'), text)
})
