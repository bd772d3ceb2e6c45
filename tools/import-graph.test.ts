import assert from 'node:assert/strict'
import { test } from 'node:test'
import { importedFiles, loadedFiles, namedFiles } from './import-graph.ts'

const source = (...lines: string[]) => ({ path: 'tools/some.ts', text: lines.join('\n'), lines })

test('imports are found in every form, and types apart from what is loaded', () => {
  const text = source(
    "import { a } from './a.ts'",
    "import type { B } from '../lib/b.ts'",
    "export { c } from './c.ts'",
    'import {',
    '  d,',
    "} from './d.ts'",
    "import './e.ts'",
    "const f = await import('./f.ts')",
    "let g: import('./g.ts').G",
    "import path from 'node:path'",
  )
  const loaded = ['a', 'c', 'd', 'e', 'f'].map((name) => `tools/${name}.ts`)
  assert.deepEqual(loadedFiles(text), loaded)
  assert.deepEqual(importedFiles(text).toSorted(), [...loaded, 'lib/b.ts', 'tools/g.ts'].toSorted())
})

test('a string that is the path of a file names the file', () => {
  const text = source(
    "new URL('../docs/errors.md', import.meta.url)",
    "const page = 'docs/wake.md'",
    'import from `${import.meta.dirname}/paths.ts`',
    "const other = 'no/such.ts'",
    '// as `docs/glossary.md` has it',
  )
  assert.deepEqual(namedFiles(text), ['docs/errors.md', 'tools/paths.ts'])
  const inTest = { ...text, path: 'tools/some.test.ts' }
  assert.deepEqual(namedFiles(inTest), ['docs/errors.md', 'docs/wake.md', 'tools/paths.ts'])
})
