import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { readRecord } from '../counts-reporter.ts'
import { run } from '../process.ts'
import { togetherCommand } from '../run-tests.ts'
import type { TestContext } from 'node:test'
import type { RunRecord } from '../counts-reporter.ts'

const FIRST = `
import { before, test } from 'node:test'
before(() => { throw new Error('the disk is full') })
test('first', () => {})
`
const SECOND = `
import { suite, test } from 'node:test'
console.log('loads the second')
test('second', () => console.log('runs the second'))
suite('around', () => test('inner', () => {}))
`
const THIRD = `
import { test } from 'node:test'
console.log('loads the third')
test('third', () => console.log('runs the third'))
`
/** Its process ends inside a test, when the reporter has written of the file before it. */
const STOPS = `
import { existsSync, readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'node:test'
test('stops', async () => {
  while (!existsSync('counts') || !readFileSync('counts', 'utf8').includes('"ended"')) await turn()
  process.kill(process.pid, 'SIGKILL')
})
`

/** Runs files with these texts in one process, in this order. Returns the record and the output. */
async function runInOrder(
  t: TestContext,
  files: Readonly<Record<string, string>>,
): Promise<RunRecord & { out: string }> {
  const folder = mkdtempSync(path.join(tmpdir(), 'in-order-'))
  t.after(() => rmSync(folder, { recursive: true }))
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text)
  const countsFile = path.join(folder, 'counts')
  // A runner that finds that it runs in a test would not write for a reporter.
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined }
  const command = togetherCommand(Object.keys(files), { countsFile, boundMs: 10_000 })
  const { stdout } = await run(command, { cwd: folder, env })
  return { ...readRecord(readFileSync(countsFile, 'utf8')), out: stdout }
}

test('files run in the given order, each after those before it', async (t) => {
  const { out, counts, took } = await runInOrder(t, { 'z.test.mjs': SECOND, 'a.test.mjs': THIRD })
  assert.deepEqual(out.match(/^(loads|runs) the \w+$/gm), [
    'loads the second',
    'runs the second',
    'loads the third',
    'runs the third',
  ])
  assert.deepEqual([counts.passed, counts.failed], [3, 0])
  assert.deepEqual(Object.keys(took), ['z.test.mjs', 'a.test.mjs'])
})

test('a hook or an import that fails is a failure of its own file, with its reason', async (t) => {
  const { out, counts, took } = await runInOrder(t, {
    'z.test.mjs': FIRST,
    'm.test.mjs': "import './nowhere.mjs'",
    'a.test.mjs': SECOND,
  })
  assert.equal(counts.passed, 2)
  assert.deepEqual(
    counts.failures.map(({ file, name }) => `${file}: ${name}`),
    ['z.test.mjs: first', 'z.test.mjs: z.test.mjs', 'm.test.mjs: m.test.mjs'],
  )
  assert.equal(counts.failed, 3)
  assert.match(counts.failures[1]?.why ?? '', /^Error: the disk is full/)
  assert.match(counts.failures[2]?.why ?? '', /nowhere\.mjs/)
  assert.match(out, /✘ z\.test\.mjs: failures\n(.*\n)*.*the disk is full/)
  assert.deepEqual(Object.keys(took), ['a.test.mjs'])
})

test('the record of a process that was ended names the files that had come to their end', async (t) => {
  const { counts, ended } = await runInOrder(t, {
    'z.test.mjs': SECOND,
    'm.test.mjs': STOPS,
    'a.test.mjs': THIRD,
  })
  assert.deepEqual(ended, ['z.test.mjs'])
  assert.deepEqual([counts.passed, counts.failed], [2, 0])
})
