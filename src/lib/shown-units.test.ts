import assert from 'node:assert/strict'
import { test } from 'node:test'
import { showMib, showSpan } from './shown-units.ts'

test('sizes and spans are shown in the unit that fits', () => {
  assert.equal(showMib(512), '512 MiB')
  assert.equal(showMib(1536), '1.5 GiB')
  assert.equal(showMib(1024), '1 GiB')
  assert.equal(showMib(1024 * 1024), '1 TiB')
  assert.equal(showMib(3 * 1024 * 1024), '3 TiB')
  assert.equal(showSpan(0), '0 s')
  assert.equal(showSpan(45_400), '45 s')
  assert.equal(showSpan(200_000), '3 min 20 s')
  assert.equal(showSpan(7_200_000), '2 h')
  assert.equal(showSpan(90_000_000), '1 d 1 h')
  assert.equal(showSpan(-5), '0 s')
})
