import assert from 'node:assert/strict'
import { test } from 'node:test'
import { driveLimitsIn, firecrackerStateOf, rateLimiterOf } from './firecracker-state.ts'

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
    assert.deepEqual(driveLimitsIn(configOf(rateLimiterOf(limits)), 'disk'), limits)
  }
  for (const none of [null, undefined, {}, { bandwidth: null, ops: null }])
    assert.deepEqual(driveLimitsIn(configOf(none), 'disk'), {})
})

test('a drive that is not there, or not as Firecracker shows one, is not found', () => {
  const nothing = [undefined, null, 1, 'text', [], {}]
  const lists = [null, 1, 'text', {}, [], [null, 1, 'disk', { drive_id: 'seed' }]].map((drives) => ({
    drives,
  }))
  const figures = [undefined, null, '1', -1, 0.5, Infinity, NaN, [], { toString: 7 }]
  const buckets = [
    ...[1, 'text', [], {}],
    ...figures.flatMap((figure) => [
      { size: figure, refill_time: 1000 },
      { size: 1, refill_time: figure },
    ]),
  ]
  for (const answer of [
    ...nothing,
    ...lists,
    ...buckets.flatMap((bucket) => [configOf({ ops: bucket }), configOf({ bandwidth: bucket })]),
  ])
    assert.equal(driveLimitsIn(answer, 'disk'), undefined, JSON.stringify(answer))
})
