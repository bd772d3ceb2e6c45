import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { BandwidthLimit } from './transfer-limits.ts'

const never = new AbortController().signal
const CHUNK = 64 * 1024

/** Runs everything that does not wait for a timer. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('all users of a limit together send at its rate, with equal shares', async () => {
  const clock = new FakeClock()
  const limit = new BandwidthLimit(80, clock)
  const sent = [0, 0, 0]
  const end = new AbortController()
  for (const index of sent.keys()) {
    void (async () => {
      for (;;) {
        await limit.spend(CHUNK, end.signal)
        sent[index] = (sent[index] ?? 0) + CHUNK
      }
    })().catch(() => undefined)
  }
  for (let elapsedMs = 0; elapsedMs < 10_000; elapsedMs += 5) {
    await settle()
    clock.advance(5)
  }
  end.abort()
  const total = sent.reduce((sum, bytes) => sum + bytes)
  // 10 MB/s for 10 s, plus the burst. Each user has at most one chunk that is paid and not sent.
  assert.ok(total > 100e6 - 4 * CHUNK && total < 100e6 + 0.5e6 + CHUNK, `${total}`)
  assert.ok(Math.max(...sent) - Math.min(...sent) <= 2 * CHUNK, sent.join())
})

test('a wait for the limit ends with the signal, and without a limit there is no wait', async () => {
  const clock = new FakeClock()
  const limit = new BandwidthLimit(1, clock)
  const controller = new AbortController()
  const reason = new Error('aborted')
  const waiting = limit.spend(1_000_000, controller.signal)
  controller.abort(reason)
  await assert.rejects(waiting, reason)
  assert.equal(clock.nextMs(), undefined)
  await new BandwidthLimit(0, clock).spend(1e12, never)
  assert.equal(clock.nextMs(), undefined)
})
