import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { readRecord } from './counts-reporter.ts'
import type { TestContext } from 'node:test'
import type { Counts } from './counts-reporter.ts'
import { checkout } from './paths.ts'
import { run } from './process.ts'

const TESTS = `
import { suite, test } from 'node:test'
test('passes', () => {})
suite('around', () => test('fails', () => { throw new Error('the disk is full') }))
test('rests', { skip: 'no disk' }, () => {})
`

/** Its process ends inside a test. The runner hears of a test before the next turn of the event loop. */
const KILLED = `
import { setImmediate as turn } from 'node:timers/promises'
import { suite, test } from 'node:test'
suite('around', () => {
  test('passes', () => {})
  test('stays', async () => { await turn(); process.kill(process.pid, 'SIGKILL') })
  test('waits', () => {})
})
`

/** Runs a file with these tests, and returns what the reporter counted. */
async function countsOf(t: TestContext, tests: string): Promise<Counts> {
  const folder = mkdtempSync(path.join(tmpdir(), 'counts-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = path.join(folder, 'some.test.mjs')
  writeFileSync(file, tests)
  const reporter = `--test-reporter=${path.join(checkout, 'tools/counts-reporter.ts')}`
  // A runner that finds that it runs in a test would not write for a reporter.
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined }
  const { stdout } = await run([process.execPath, '--test', reporter, file], { cwd: folder, env })
  return readRecord(stdout).counts
}

test('a run has its failed and skipped tests by name, with their reasons', async (t) => {
  const counts = await countsOf(t, TESTS)
  assert.equal(counts.passed, 1)
  assert.equal(counts.failed, 1)
  assert.deepEqual(counts.skipped, [{ name: 'rests', file: 'some.test.mjs', why: 'no disk' }])
  const [failure, ...others] = counts.failures
  assert.deepEqual(others, [])
  assert.deepEqual([failure?.name, failure?.file], ['fails', 'some.test.mjs'])
  assert.match(failure?.why ?? '', /^Error: the disk is full/)
})

test('the failure of a file whose process was killed names the tests that had not ended', async (t) => {
  const { failures } = await countsOf(t, KILLED)
  assert.deepEqual(
    failures.map(({ name }) => path.basename(name)),
    ['some.test.mjs'],
  )
  assert.match(
    failures[0]?.why ?? '',
    /^These had begun and not ended: around \(line 4\), stays \(line 6\)\n/,
  )
})
