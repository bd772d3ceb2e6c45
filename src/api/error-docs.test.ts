import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { faults, rejections } from '../core/errors.ts'

const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')

/** Returns the rows of the table below a heading: code to second column. */
function rowsBelow(heading: string): [string, string][] {
  const section =
    page.split(/^## /m).find((part) => part.startsWith(heading)) ?? assert.fail(`no heading ${heading}`)
  return [...section.matchAll(/^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$/gm)].map(
    ([, code = '', second = '']) => [code, second.trim()],
  )
}

test('the documented rejections are those of the catalogue, with their status', () => {
  assert.deepEqual(
    rowsBelow('Rejections'),
    Object.entries(rejections).map(([code, { status }]) => [code, String(status)]),
  )
})

test('the documented faults are those of the catalogue, with their retry class', () => {
  assert.deepEqual(
    rowsBelow('Faults'),
    Object.entries(faults).map(([code, { retry }]) => [code, retry]),
  )
})

test('no row of the page is missed by these tests', () => {
  const rows = page.split('\n').filter((line) => line.startsWith('| `'))
  assert.equal(rows.length, Object.keys(rejections).length + Object.keys(faults).length)
})
