import assert from 'node:assert/strict'
import { test } from 'node:test'
import { driveIn, firecrackerStateOf, rateLimiterOf } from './firecracker-state.ts'

const disk = { sizeMib: 64 }

for (const [state, expected] of [
  ['Running', { kind: 'running', disk }],
  ['Paused', { kind: 'paused', disk }],
  ['Not started', { kind: 'restoring' }],
  ['Unheard of', { kind: 'broken', status: 'Unheard of' }],
] as const) {
  test(`the state "${state}" means ${expected.kind}`, () => {
    assert.deepEqual(firecrackerStateOf(state, disk), expected)
  })
}

const configOf = (rateLimiter: unknown): object => ({
  drives: [
    { drive_id: 'seed', path_on_host: '/seed' },
    { drive_id: 'disk', path_on_host: '/disk', rate_limiter: rateLimiter },
  ],
})

test('limits are read as they were set, and what was lifted is absent', () => {
  for (const limits of [
    {},
    { iopsMax: 7 },
    { mibPerSecondMax: 5 },
    { iopsMax: 100, mibPerSecondMax: 4096 },
  ]) {
    assert.deepEqual(driveIn(configOf(rateLimiterOf(limits)), 'disk'), { path: '/disk', limits })
  }
  for (const none of [null, undefined, {}, { bandwidth: null, ops: null }])
    assert.deepEqual(driveIn(configOf(none), 'disk'), { path: '/disk', limits: {} })
})

test('a drive that is not there, or not one, is not found', () => {
  for (const answer of [undefined, null, 1, {}, { drives: null }, { drives: [null, { drive_id: 'disk' }] }])
    assert.equal(driveIn(answer, 'disk'), undefined)
})
