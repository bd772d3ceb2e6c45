import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newRequestId } from './request-id.ts'

test('request ids are well formed, and none comes twice', () => {
  const ids = Array.from({ length: 1000 }, () => newRequestId())
  assert.ok(ids.every((id) => /^req-[0-9a-f]{16}$/.test(id)))
  assert.equal(new Set(ids).size, ids.length)
})
