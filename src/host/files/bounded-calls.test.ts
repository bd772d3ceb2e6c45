import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { errorChain } from '../../log/error-chain.ts'
import { BoundedCalls, NoAnswer } from './bounded-calls.ts'
import type { TestContext } from 'node:test'

/** Makes a call that ends on demand, and counts how many began. */
function hangingCall(t: TestContext) {
  const { promise, resolve: end } = Promise.withResolvers<string>()
  // The timer of a bound does not keep a process alive; a call that hangs in the kernel does.
  const alive = setInterval(() => {}, 1000)
  t.after(() => clearInterval(alive))
  const state = { begun: 0, end: () => end('late'), call: () => ((state.begun += 1), promise) }
  return state
}

const isNoAnswer =
  (because: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof NoAnswer)
    assert.match(errorChain(error), because)
    return true
  }
const isOverdue = isNoAnswer(/no answer for 0\.02 s$/)
const isRefused = isNoAnswer(/an earlier call still has no answer$/)

test('while a call about a thing has no answer, no other call about it begins, and other calls do', async (t) => {
  const calls = new BoundedCalls({ places: 3, boundMs: 20 })
  const hanging = hangingCall(t)
  await assert.rejects(calls.take(hanging.call, { about: ['a', 'b'] }), isOverdue)
  for (const about of [['a'], ['b'], ['c', 'b']])
    await assert.rejects(calls.take(hanging.call, { about }), isRefused)
  assert.equal(hanging.begun, 1)
  assert.equal(await calls.take(async () => 'fresh', { about: ['c'] }), 'fresh')
  hanging.end()
  await new Promise(setImmediate)
  assert.equal(await calls.take(async () => 'again', { about: ['a'] }), 'again')
})

test('a call may have a bound of its own', async (t) => {
  const calls = new BoundedCalls({ places: 1, boundMs: 60_000 })
  await assert.rejects(calls.take(hangingCall(t).call, { boundMs: 20 }), isOverdue)
})

test('calls that may hang leave threads for everything else', () => {
  const threads = limits.blockingThreads
  // libuv keeps about half of its threads free of slow work such as name lookups (uv__slow_work_threshold).
  const names = Math.ceil((threads + 1) / 2)
  const files =
    limits.poolCallsMax + limits.poolFlushesMax + limits.imageFetchesMax + limits.localImageCallsMax
  const mayHang = names + files
  assert.ok(threads - mayHang >= 2, `${mayHang} of ${threads} threads may hang`)
  const unit = readFileSync(resolve(import.meta.dirname, '../../../packaging/vmhostd.service'), 'utf8')
  assert.equal(/^Environment=UV_THREADPOOL_SIZE=([0-9]+)$/m.exec(unit)?.[1], String(threads))
})
