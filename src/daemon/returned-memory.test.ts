import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'
import { limits } from '../config/limits.ts'
import { leaveFreedMemory } from '../../test/freed-memory.ts'
import { returnMemoryUntil, returnStartMemory } from './returned-memory.ts'

/** Much more than V8 frees by itself between two lines. */
const GARBAGE_BYTES = 64 * 1024 * 1024

test('memory that nothing needs any longer goes back to the host, and the collector is not left within reach', () => {
  let garbage: unknown[] | undefined = Array.from({ length: GARBAGE_BYTES / 64 }, (_, index) => ({ index }))
  const before = process.memoryUsage().heapTotal
  assert.ok(garbage.length > 0)
  garbage = undefined
  returnStartMemory()
  assert.ok(process.memoryUsage().heapTotal < before - GARBAGE_BYTES / 2)
  assert.equal(runInNewContext('typeof gc'), 'undefined')
})

test('memory that libraries free later goes back from time to time, until the daemon ends', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const ending = new AbortController()
  returnMemoryUntil(ending.signal)
  t.mock.timers.tick(limits.freedMemoryReturnMs)
  assert.ok(freedAndReturned() > GARBAGE_BYTES / 2)
  ending.abort()
  assert.ok(freedAndReturned() < GARBAGE_BYTES / 2)

  /** Returns how many bytes of memory, freed just before, go back within the interval. */
  function freedAndReturned(): number {
    const freeRest = leaveFreedMemory(GARBAGE_BYTES)
    const before = process.memoryUsage.rss()
    t.mock.timers.tick(limits.freedMemoryReturnMs)
    const after = process.memoryUsage.rss()
    freeRest()
    return before - after
  }
})
