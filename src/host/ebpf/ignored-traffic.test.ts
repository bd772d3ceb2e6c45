import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NOTHING_IGNORED, OWN_MARK, withOwnMark } from './ignored-traffic.ts'

test('packets of the daemon have the mark that is configured, else one of its own that is compared as a whole', () => {
  const own = { ...NOTHING_IGNORED, ignoreMark: OWN_MARK, ignoreMarkMask: 0xffff_ffff }
  assert.deepEqual(withOwnMark(NOTHING_IGNORED), own)
  const configured = { ...NOTHING_IGNORED, ignoreMark: 0x10, ignoreMarkMask: 0xf0 }
  assert.deepEqual(withOwnMark(configured), configured)
})
