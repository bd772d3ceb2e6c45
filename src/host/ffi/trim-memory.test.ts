import assert from 'node:assert/strict'
import { test } from 'node:test'
import { leaveFreedMemory } from '../../../test/freed-memory.ts'
import { trimMemory } from './trim-memory.ts'

const FREED_BYTES = 64 * 1024 * 1024

test('memory that a library has freed goes back to the host', () => {
  const freeRest = leaveFreedMemory(FREED_BYTES)
  const before = process.memoryUsage.rss()
  trimMemory()
  const after = process.memoryUsage.rss()
  freeRest()
  assert.ok(after < before - FREED_BYTES / 2, `${before - after} bytes were returned`)
})
