import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pendingTimers, systemClock } from './system-clock.ts'

test('a timer counts until it fires or is cancelled, and once', async () => {
  const fired = Promise.withResolvers<void>()
  const cancelFired = systemClock.after(1, fired.resolve)
  const cancel = systemClock.after(60_000, () => assert.fail('it was cancelled'))
  assert.equal(pendingTimers(), 2)
  // The clock's own timers do not keep this process alive.
  const kept = setTimeout(() => assert.fail('it did not fire'), 60_000)
  await fired.promise
  clearTimeout(kept)
  assert.equal(pendingTimers(), 1)
  cancelFired()
  cancel()
  cancel()
  assert.equal(pendingTimers(), 0)
})
