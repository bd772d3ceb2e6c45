import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { TokenBucket } from './token-bucket.ts'

const takeMany = (bucket: TokenBucket, nowMs: number, times: number): number =>
  Array.from({ length: times }, () => bucket.take(nowMs)).filter(Boolean).length

test('a burst passes at once, and nothing more', () => {
  const bucket = new TokenBucket({ perSecond: 10, burst: 5, nowMs: 1000 })
  assert.equal(takeMany(bucket, 1000, 9), 5)
})

test('what has passed comes back with time, up to the burst', () => {
  const bucket = new TokenBucket({ perSecond: 10, burst: 5, nowMs: 0 })
  takeMany(bucket, 0, 5)
  assert.equal(takeMany(bucket, 99, 5), 0)
  assert.equal(takeMany(bucket, 200, 5), 2)
  assert.equal(takeMany(bucket, 60_000, 9), 5)
})

test('in no stretch of time does more pass than the burst and what the rate brings', () => {
  const pauses = fc.array(fc.nat({ max: 500 }), { minLength: 1, maxLength: 200 })
  fc.assert(
    fc.property(pauses, (pausesMs) => {
      const bucket = new TokenBucket({ perSecond: 20, burst: 3, nowMs: 0 })
      let nowMs = 0
      const passed = pausesMs.filter((pauseMs) => bucket.take((nowMs += pauseMs))).length
      assert.ok(passed <= 3 + (nowMs / 1000) * 20 + 1e-6)
    }),
  )
})

/** A budget of one for each millisecond. */
const budget = (nowMs = 0): TokenBucket => new TokenBucket({ perSecond: 1000, burst: 100, nowMs })

test('a burst is free, and what goes beyond it is paid with time', () => {
  const drain = budget()
  assert.equal(drain.spend(0, 100), 0)
  assert.equal(drain.spend(0, 30), 30)
  assert.equal(drain.spend(30, 0), 0)
  assert.equal(drain.spend(30, 1), 1)
})

test('a bucket is full until something passes, and when that was earned back', () => {
  const drain = budget()
  assert.ok(drain.isFull(0))
  drain.spend(0, 130)
  assert.ok(!drain.isFull(129))
  assert.ok(drain.isFull(130))
})

test('time without output earns one burst at most', () => {
  const drain = budget(5000)
  assert.equal(drain.spend(5000, 100), 0)
  assert.equal(drain.spend(1_000_000, 100), 0)
  assert.equal(drain.spend(1_000_000, 50), 50)
})

test('a caller that keeps the pauses moves the bytes of the time and one burst, whatever the pieces', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 500 }), { minLength: 1, maxLength: 50 }), (pieces) => {
      const drain = budget()
      let [now, moved] = [0, 0]
      for (const piece of pieces) {
        now += drain.spend(now, piece)
        moved += piece
        assert.ok(moved <= now + 100, `${moved} bytes were moved in ${now} ms`)
      }
      assert.ok(now <= moved, `${now} ms for ${moved} bytes`)
    }),
  )
})

test('what is given back counts up to the burst', () => {
  const drain = budget()
  assert.equal(drain.spend(0, 130), 30)
  assert.equal(drain.spend(0, -50), 0)
  assert.equal(drain.spend(0, -1000), 0)
  assert.equal(drain.spend(0, 101), 1)
})
