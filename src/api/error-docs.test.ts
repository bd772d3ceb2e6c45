/** Tests the catalogue of problems: the page made from it, and the examples in it. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { faults, rejections } from '../core/problems/catalogue.ts'
import { canWrite } from '../../test/written-texts.ts'
import { ERRORS_PAGE, withTables } from '../../tools/error-docs.ts'
import type { Entries, FaultEntry, RejectionEntry } from '../core/problems/entry.ts'

const checkout = resolve(import.meta.dirname, '../..')
const entries: readonly (readonly [string, RejectionEntry | FaultEntry])[] = Object.entries({
  ...rejections,
  ...faults,
})

test('docs/errors.md has the tables that the catalogue makes', () => {
  const page = readFileSync(ERRORS_PAGE, 'utf8')
  assert.equal(page, withTables(page), 'the catalogue has changed: run ./dev errors')
  const rows = page.split('\n').filter((line) => /^\| `\w+` (?:\|[^|]+){3}\|$/.test(line))
  assert.equal(rows.length, entries.length)
})

test('each code is in one subject of the catalogue', async () => {
  const folder = resolve(checkout, 'src/core/problems')
  const codes: string[] = []
  const others = ['catalogue.ts', 'entry.ts']
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.ts') && !others.includes(file))) {
    const subject = Object.values((await import(join(folder, name))) as Record<string, Entries>)
    for (const one of subject)
      codes.push(...Object.keys(one.rejections ?? {}), ...Object.keys(one.faults ?? {}))
  }
  assert.deepEqual(codes.toSorted(), entries.map(([code]) => code).toSorted())
})

test('the code writes each example of the catalogue', () => {
  for (const [code, { example, writtenBy, quotes }] of entries) {
    for (const path of writtenBy)
      assert.ok(existsSync(join(checkout, path)), `${code} is written by ${path}, which is not there`)
    const remedy = 'correct the example, or name the files that hold its texts'
    assert.ok(
      canWrite(example, writtenBy, quotes),
      `${writtenBy.join()} cannot write "${example}": ${remedy}`,
    )
    const sources = writtenBy.map((path) => readFileSync(join(checkout, path), 'utf8'))
    assert.ok(
      sources.some((source) => source.includes(`'${code}'`)),
      `none of ${writtenBy.join()} knows ${code}`,
    )
  }
})

test('an example that differs from the code by one word is found', () => {
  for (const [code, { example, writtenBy, quotes }] of entries) {
    for (const { index } of example.matchAll(/ /g)) {
      const drifted = `${example.slice(0, index)} perhaps${example.slice(index)}`
      assert.ok(!canWrite(drifted, writtenBy, quotes), `${code}: ${drifted}`)
    }
  }
})
