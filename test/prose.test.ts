import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '..')

const COLUMNS_MAX = 120

/** Made from a template and figures on record, so its lines have any length. */
const MADE = 'figures.md'

test('prose in documents is wrapped', () => {
  const documents = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md') && name !== MADE)
  for (const path of [...documents.map((name) => `docs/${name}`), 'README.md', 'CONTRIBUTING.md']) {
    let isCode = false
    for (const [index, line] of readFileSync(join(root, path), 'utf8').split('\n').entries()) {
      if (/^\s*```/.test(line)) isCode = !isCode
      // Rows of tables cannot be wrapped, nor can a line of one word, such as a link.
      if (isCode || /^\s*\|/.test(line) || !line.trim().includes(' ')) continue
      assert.ok(line.length <= COLUMNS_MAX, `${path}:${index + 1} has ${line.length} columns: wrap it`)
    }
  }
})
