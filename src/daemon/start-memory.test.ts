import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'
import { returnStartMemory } from './start-memory.ts'

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
