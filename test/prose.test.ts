import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readSources, SOURCE_FOLDERS } from '../tools/import-graph.ts'
import { checkout as root } from '../tools/paths.ts'

const COLUMNS_MAX = 120

/** Made from a template and figures on record, so its lines have any length. */
const MADE = 'docs/figures.md'

test('prose in documents is wrapped', () => {
  const below = ['docs', ...SOURCE_FOLDERS].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  )
  const documents = [...readdirSync(root), ...below].filter((name) => name.endsWith('.md'))
  assert.ok(
    documents.includes('README.md') && documents.includes('src/core/README.md'),
    'the documents are found',
  )
  for (const path of documents.filter((name) => name !== MADE)) {
    let isCode = false
    for (const [index, line] of readFileSync(join(root, path), 'utf8').split('\n').entries()) {
      if (/^\s*```/.test(line)) isCode = !isCode
      // Rows of tables cannot be wrapped, nor can a line of one word, such as a link.
      if (isCode || /^\s*\|/.test(line) || !line.trim().includes(' ')) continue
      assert.ok(line.length <= COLUMNS_MAX, `${path}:${index + 1} has ${line.length} columns: wrap it`)
    }
  }
})

test('comments are wrapped', () => {
  for (const { path, lines } of SOURCE_FOLDERS.flatMap(readSources)) {
    for (const [index, line] of lines.entries()) {
      if (!/^\s*(\/\/|\/\*|\* )/.test(line)) continue
      assert.ok(line.length <= COLUMNS_MAX, `${path}:${index + 1} has ${line.length} columns: wrap it`)
    }
  }
})
