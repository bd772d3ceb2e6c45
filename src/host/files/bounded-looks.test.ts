import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { HostFault } from '../../core/errors.ts'
import { errorChain } from '../../log/error-chain.ts'
import { BoundedLooks } from './bounded-looks.ts'
import type { TestContext } from 'node:test'

const DOING = 'measuring the pool'

/** Makes a look that ends on demand, and counts how many began. */
function hangingLook(t: TestContext) {
  const { promise, resolve } = Promise.withResolvers<string>()
  // The timer of a bound does not keep a process alive; a call that hangs in the kernel does.
  const alive = setInterval(() => {}, 1000)
  t.after(() => clearInterval(alive))
  const state = {
    begun: 0,
    end: async (): Promise<void> => {
      resolve('late')
      await new Promise((next) => setImmediate(next))
    },
    look: (): Promise<string> => {
      state.begun += 1
      return promise
    },
  }
  return state
}

const looksWith = (places: number): BoundedLooks =>
  new BoundedLooks({ code: 'storage_inspection_failed', places, boundMs: 50 })

const isFault =
  (message: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof HostFault)
    assert.equal(error.code, 'storage_inspection_failed')
    assert.match(errorChain(error), message)
    return true
  }
const isOverdue = isFault(/^measuring the pool: no answer for 0\.05 s$/)
const isRefused = isFault(/^measuring the pool: an earlier call still has no answer$/)

test('looks that hang are given up, at most one begins per place, and each caller gets an error', async (t) => {
  const looks = looksWith(2)
  const hanging = hangingLook(t)
  const asked = Array.from({ length: 5 }, () => looks.take(DOING, hanging.look))
  const reasons = (await Promise.allSettled(asked)).map((end) => end.status === 'rejected' && end.reason)
  for (const reason of reasons.slice(0, 2)) isOverdue(reason)
  for (const reason of reasons.slice(2)) isRefused(reason)
  assert.equal(hanging.begun, 2)
})

test('slow looks that answer within the bound are all answered, however many wait for their turn', async () => {
  const looks = looksWith(2)
  const asked = Array.from({ length: 12 }, (_, index) =>
    looks.take(DOING, async () => {
      await delay(20)
      return index
    }),
  )
  assert.deepEqual(
    await Promise.all(asked),
    asked.map((_, index) => index),
  )
})

test('while a look hangs in every place, others are refused, and a new one can begin when one ends', async (t) => {
  const looks = looksWith(1)
  const hanging = hangingLook(t)
  await assert.rejects(looks.take(DOING, hanging.look), isOverdue)
  await assert.rejects(looks.take(DOING, hanging.look), isRefused)
  assert.equal(hanging.begun, 1)
  await hanging.end()
  assert.equal(await looks.take(DOING, async () => 'fresh'), 'fresh')
})

test('a free place is used while a look hangs in another', async (t) => {
  const looks = looksWith(2)
  const hanging = hangingLook(t)
  await assert.rejects(looks.take(DOING, hanging.look), isOverdue)
  assert.equal(await looks.take(DOING, async () => 'fresh'), 'fresh')
})

test('a look that fails in time fails with its own error', async () => {
  const looks = looksWith(1)
  const failure = new Error('EIO')
  await assert.rejects(
    looks.take(DOING, () => Promise.reject(failure)),
    failure,
  )
  assert.equal(await looks.take(DOING, async () => 'fresh'), 'fresh')
})

test('a system call that fails in a look is a fault without a path; a bug is thrown as it is', async () => {
  const looks = looksWith(1)
  const missing = '/nothing/of/this/name'
  const failed = looks.take(DOING, () => readFile(missing))
  await assert.rejects(failed, isFault(/^measuring the pool: ENOENT: no such file or directory$/))
  const bug = new TypeError('x is undefined')
  await assert.rejects(
    looks.take(DOING, () => Promise.reject(bug)),
    (error) => error === bug,
  )
})
