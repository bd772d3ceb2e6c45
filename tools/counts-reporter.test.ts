import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { readRecord } from './counts-reporter.ts'
import { checkout } from './paths.ts'
import { run } from './process.ts'

const TESTS = `
import { suite, test } from 'node:test'
test('passes', () => {})
suite('around', () => test('fails', () => { throw new Error('the disk is full') }))
test('rests', { skip: 'no disk' }, () => {})
`

test('a run has its failed and skipped tests by name, with their reasons', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'counts-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = path.join(folder, 'some.test.mjs')
  writeFileSync(file, TESTS)
  const reporter = `--test-reporter=${path.join(checkout, 'tools/counts-reporter.ts')}`
  // A runner that finds that it runs in a test would not write for a reporter.
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined }
  const { stdout } = await run([process.execPath, '--test', reporter, file], { cwd: folder, env })
  const { counts } = readRecord(stdout)
  assert.equal(counts.passed, 1)
  assert.equal(counts.failed, 1)
  assert.deepEqual(counts.skipped, [{ name: 'rests', file: 'some.test.mjs', why: 'no disk' }])
  const [failure, ...others] = counts.failures
  assert.deepEqual(others, [])
  assert.deepEqual([failure?.name, failure?.file], ['fails', 'some.test.mjs'])
  assert.match(failure?.why ?? '', /^Error: the disk is full/)
})
