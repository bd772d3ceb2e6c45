import assert from 'node:assert/strict'
import { test } from 'node:test'
import { run, runChecked } from './process.ts'

test('a command answers its status, its two streams, and what it made of its input', async () => {
  const result = await run(['sh', '-c', 'cat; echo oops >&2; exit 3'], { input: 'hello' })
  assert.deepEqual(result, { code: 3, stdout: 'hello', stderr: 'oops\n', timedOut: false })
})

test('a command that is not there is status 127, and one ended by a signal 128 and the signal', async () => {
  assert.equal((await run(['/nowhere/to/be/found'])).code, 127)
  assert.equal((await run(['sh', '-c', 'kill -KILL $$'])).code, 137)
})

test('a time limit ends the command with its children, and says so', async () => {
  const began = performance.now()
  const result = await run(['sh', '-c', 'sleep 30 & sleep 30'], { timeoutMs: 100 })
  assert.equal(result.timedOut, true)
  assert.equal(result.code, 124)
  assert.ok(performance.now() - began < 5000)
})

test('a command that had to succeed names itself and what it said last', async () => {
  await assert.rejects(runChecked(['sh', '-c', 'echo no such thing >&2; exit 2']), /status 2\nno such thing/)
})
