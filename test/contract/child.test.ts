import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { endChild, firstLine, linesOf } from './child.ts'

const shell = (script: string) => spawn('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore'] })

test('the lines of a child are given in order, including those before its end', async () => {
  const next = linesOf(shell('echo one; echo two'))
  assert.deepEqual([await next(), await next()], ['one', 'two'])
  await assert.rejects(next(), /^Error: it ended with 0: sh -c/)
})

test('a wait for a line fails with how the child ended', async () => {
  await assert.rejects(firstLine(shell('exit 3')), /^Error: it ended with 3: sh -c exit 3$/)
  await assert.rejects(firstLine(shell('kill -9 $$')), /^Error: it ended by SIGKILL: /)
  const missing = spawn('/nonexistent', [], { stdio: ['ignore', 'pipe', 'ignore'] })
  await assert.rejects(firstLine(missing), /^Error: it did not start, .*ENOENT/)
})

test('a wait for a silent child is bounded', async (t) => {
  const child = shell('exec sleep 60')
  atEnd(t, () => endChild(child))
  await assert.rejects(linesOf(child, 50)(), /^Error: no line for 50 ms from: sh -c exec sleep 60$/)
})

test('a child is ended once, whether it runs or has ended', async () => {
  const child = shell('exec sleep 60')
  await endChild(child)
  assert.equal(child.signalCode, 'SIGKILL')
  await endChild(child)
  const over = shell('exit 0')
  await once(over, 'exit')
  await endChild(over)
  const missing = spawn('/nonexistent')
  await once(missing, 'error')
  await endChild(missing)
})
