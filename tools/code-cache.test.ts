import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { Script } from 'node:vm'
import { LOADER, makeCodeCache, programOf } from './code-cache.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'code-'))
after(() => rmSync(folder, { recursive: true }))

const PROGRAM = programOf(`#!/usr/bin/env node
const { getAsset } = require('node:sea')
function late() { return [1, 2, 3].map((one) => one + getAsset('words').length) }
if (process.argv[2] === 'run') late()`)

function cacheOf(name: string, args: readonly string[]): Buffer {
  mkdirSync(path.join(folder, name))
  const [program, words, target] = ['program.js', 'words', 'code'].map((file) =>
    path.join(folder, name, file),
  )
  assert.ok(program !== undefined && words !== undefined && target !== undefined)
  writeFileSync(program, PROGRAM)
  writeFileSync(words, 'words')
  makeCodeCache({ program, args, assets: { words } }, target)
  return readFileSync(target)
}

test('the code that a start ran is in the cache, and V8 takes it', () => {
  const ran = cacheOf('ran', ['run'])
  assert.ok(ran.length > cacheOf('not run', ['other']).length)
  const script = new Script(PROGRAM, { filename: 'another.js', cachedData: ran })
  assert.equal(script.cachedDataRejected, false)
})

test('a program has the names of a CommonJS module, also in code that its start does not run', () => {
  const names = ['exports', 'require', 'module', '__filename', '__dirname']
  const types = `[${names.map((name) => `typeof ${name}`).join()}]`
  const program = programOf(`module.exports = () => ${types}`)
  const given = { exports: {}, module: { exports: () => [''] } }
  const run = new Script(program).runInThisContext() as (...names: unknown[]) => void
  run(given.exports, () => {}, given.module, '/a/b', '/a')
  assert.deepEqual(given.module.exports(), ['object', 'function', 'object', 'string', 'string'])
  const call = /runInThisContext\(\)\((.*)\)/.exec(LOADER)?.[1]
  assert.equal(call, names.join(', '))
})

test('a cache that is made in another folder has the same bytes', () => {
  assert.deepEqual(cacheOf('one', ['run']), cacheOf('another folder', ['run']))
})
