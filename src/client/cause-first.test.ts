import assert from 'node:assert/strict'
import { test } from 'node:test'
import { attemptWords, causeFirst } from './cause-first.ts'

const digest = '8f8cfe3a12ab'.padEnd(64, '0')
const other = '0123456789ab'.padEnd(64, '0')

for (const [error, reported] of [
  [
    `image.ensure-fetched: fetching image ${digest}: asking example.net: connection refused`,
    'connection refused (fetching image 8f8cfe3a12ab…: asking example.net), in image.ensure-fetched',
  ],
  [
    `image.ensure-fetched: fetching image ${digest}: verifying it: the image has the SHA-256 ${other}, not the ${digest} that was asked for`,
    'the image has the SHA-256 0123456789ab…, not the 8f8cfe3a12ab… that was asked for (fetching image 8f8cfe3a12ab…: verifying it), in image.ensure-fetched',
  ],
  [
    'storage.ensure-disk: cloning the disk of web-1: ENOSPC: no space left on device',
    'ENOSPC: no space left on device (cloning the disk of web-1), in storage.ensure-disk',
  ],
  ['unit.run: the monitor ended', 'the monitor ended, in unit.run'],
  [
    'network.ensure-tap: no device; console.inspect: the unit is active, but: lost',
    'no device, in network.ensure-tap; lost (the unit is active, but), in console.inspect',
  ],
  [
    'sending part 3: the store answered 503; again later',
    'the store answered 503; again later (sending part 3)',
  ],
  ['nothing to turn', 'nothing to turn'],
] as const) {
  test(`"${error}" is shown with its cause first`, () => {
    assert.equal(causeFirst(error), reported)
  })
}

test('an attempt is announced until its time, and is under way from then on', () => {
  const nowMs = Date.UTC(2030, 0, 1)
  const words = (inMs: number): string | undefined =>
    attemptWords({ attempt: 2, next_attempt_at: new Date(nowMs + inMs).toISOString() }, nowMs)
  assert.equal(words(1), 'attempt 2, next in 1 s')
  for (const inMs of [0, -30_000]) assert.equal(words(inMs), 'attempt 2, the next is under way')
  assert.equal(attemptWords({ attempt: 2 }, nowMs), undefined)
})
