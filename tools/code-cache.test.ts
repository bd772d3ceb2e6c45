import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { Script } from 'node:vm'
import { makeProgram } from './code-cache.ts'
import { runChecked } from './process.ts'

/** A bundle as esbuild writes it, with a module that is loaded late. */
const BUNDLE = `#!/usr/bin/env node
var __esm=(fn,res)=>function(){return fn&&(res=(0,fn[Object.keys(fn)[0]])(fn=0)),res};
var answer,init_answer=__esm({"src/answer.ts"(){answer=42}});init_answer();exports.answer=answer`

test('a program does what its bundle does, its modules are compiled with it, and equal bundles give equal code', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'code-cache-'))
  t.after(() => rmSync(folder, { recursive: true }))
  writeFileSync(path.join(folder, 'bundle.cjs'), BUNDLE)
  const made = await Promise.all(
    ['one', 'other'].map(async (name) => {
      const [script, code] = [`${name}.js`, `${name}.code`] as const
      await makeProgram(folder, { bundle: 'bundle.cjs', script, code }, { run: runChecked })
      return {
        text: readFileSync(path.join(folder, script), 'latin1'),
        code: readFileSync(path.join(folder, code)),
      }
    }),
  )
  assert.deepEqual(made[0], made[1])
  const [{ text, code } = { text: '', code: Buffer.alloc(0) }] = made
  assert.match(text, /\{"src\/answer\.ts":\(function\(\)\{answer=42\}\)\}/)
  const script = new Script(text, { cachedData: code })
  assert.equal(script.cachedDataRejected, false)
  const exports: { answer?: number } = {}
  const run = script.runInThisContext() as (...given: unknown[]) => void
  run(undefined, { exports }, exports, '', '')
  assert.equal(exports.answer, 42)
})
