import assert from 'node:assert/strict'
import { test } from 'node:test'
import { afterEvent, DEPARTURE_STAGES, refuseRead } from './departure.ts'
import type { ArrivalId, Departure, DepartureEvent, DepartureStage } from './departure.ts'
import type { MigrationId, NodeName } from './offer.ts'

const MINE = 'a' as ArrivalId
const OTHER = 'b' as ArrivalId

/** A departure as it is when destination `MINE` copies, and has brought it to this stage. */
const at = (stage: DepartureStage): Departure => ({
  id: 'm' as MigrationId,
  node: 'node-2' as NodeName,
  mode: 'live',
  stage,
  sinceMs: 1,
  ...(stage === 'offered' ? {} : { arrival: MINE }),
  ...(stage === 'handed_over' || stage === 'released' ? { lastRound: 3 } : {}),
  ...(stage === 'withdrawn' ? { because: 'expired' } : {}),
})

const EVENTS = {
  copy: { kind: 'copy', arrival: MINE },
  'copy by another': { kind: 'copy', arrival: OTHER },
  'take the next round': { kind: 'take_round', arrival: MINE, number: 3 },
  'take a round for another': { kind: 'take_round', arrival: OTHER, number: 3 },
  'take an earlier round': { kind: 'take_round', arrival: MINE, number: 2 },
  'hand over': { kind: 'hand_over', arrival: MINE, lived: 'running' },
  'hand over to another': { kind: 'hand_over', arrival: OTHER, lived: 'running' },
  'guest saved': { kind: 'guest_saved', lastRound: 3 },
  release: { kind: 'release', arrival: MINE, lastRound: 3 },
  'release to another': { kind: 'release', arrival: OTHER, lastRound: 3 },
  'release of an earlier round': { kind: 'release', arrival: MINE, lastRound: 2 },
  abort: { kind: 'abort', arrival: MINE },
  'abort by another': { kind: 'abort', arrival: OTHER },
  withdraw: { kind: 'withdraw', because: 'withdrawn' },
} as const satisfies Record<string, DepartureEvent>

/** For each event, the result in each stage of `DEPARTURE_STAGES`: the stage that follows, or the refusal. */
const TABLE: { readonly [E in keyof typeof EVENTS]: readonly string[] } = {
  copy: ['copying', 'copying', 'handing_over', 'handed_over', 'released', '!withdrawn'],
  'copy by another': ['copying', 'copying', '!not_yours', '!not_yours', '!released', '!withdrawn'],
  'take the next round': ['!not_yours', 'copying', '!too_early', 'handed_over', '!released', '!withdrawn'],
  'take a round for another': [
    '!not_yours',
    '!not_yours',
    '!not_yours',
    '!not_yours',
    '!released',
    '!withdrawn',
  ],
  'take an earlier round': ['!not_yours', 'copying', '!too_early', '!outdated', '!released', '!withdrawn'],
  'hand over': ['!not_yours', 'handing_over', 'handing_over', 'handed_over', 'released', '!withdrawn'],
  'hand over to another': [
    '!not_yours',
    '!not_yours',
    '!not_yours',
    '!not_yours',
    '!not_yours',
    '!withdrawn',
  ],
  'guest saved': ['!too_early', '!too_early', 'handed_over', 'handed_over', 'released', '!withdrawn'],
  release: ['!not_yours', '!too_early', '!too_early', 'released', 'released', '!withdrawn'],
  'release to another': ['!not_yours', '!not_yours', '!not_yours', '!not_yours', '!not_yours', '!withdrawn'],
  'release of an earlier round': [
    '!not_yours',
    '!too_early',
    '!too_early',
    '!outdated',
    '!outdated',
    '!withdrawn',
  ],
  abort: ['withdrawn', 'withdrawn', 'withdrawn', 'withdrawn', '!released', 'withdrawn'],
  'abort by another': ['withdrawn', '!not_yours', '!not_yours', '!not_yours', '!not_yours', 'withdrawn'],
  withdraw: ['withdrawn', 'withdrawn', 'withdrawn', 'withdrawn', '!released', 'withdrawn'],
}

for (const name of Object.keys(EVENTS) as (keyof typeof EVENTS)[]) {
  test(`${name}: the stage that follows, or the refusal, in every stage`, () => {
    const results = DEPARTURE_STAGES.map((stage) => {
      const result = afterEvent(at(stage), EVENTS[name], 2)
      return result.ok ? result.value.stage : `!${result.error}`
    })
    assert.deepEqual(results, TABLE[name])
  })
}

test('a repeated request changes nothing, and another destination takes the place of the first', () => {
  for (const [name, stage] of [
    ['copy', 'copying'],
    ['hand over', 'handing_over'],
    ['guest saved', 'handed_over'],
    ['release', 'released'],
    ['withdraw', 'withdrawn'],
  ] as const) {
    const before = at(stage)
    const again = afterEvent(before, EVENTS[name], 2)
    assert.equal(again.ok && again.value, before, name)
  }
  const copying = at('copying')
  const other = afterEvent(copying, EVENTS['copy by another'], 2)
  assert.deepEqual(other.ok && other.value, { ...copying, arrival: OTHER, sinceMs: 2 })
})

test('a departure counts its rounds one by one, and another destination begins from the first', () => {
  const taken = (departure: Departure, number: number, arrival = MINE): Departure => {
    const result = afterEvent(departure, { kind: 'take_round', arrival, number }, 2)
    assert.ok(result.ok)
    return result.value
  }
  const second = taken(taken(at('copying'), 1), 2)
  assert.equal(second.round, 2)
  assert.equal(taken(second, 2), second)
  assert.equal(taken(second, 4), second)
  const other = afterEvent(second, EVENTS['copy by another'], 2)
  assert.equal(other.ok && other.value.round, undefined)
})

test('a destination reads only while it copies, or the guest is down for the handover', () => {
  const refusals = DEPARTURE_STAGES.map((stage) => refuseRead(at(stage), MINE))
  assert.deepEqual(refusals, ['not_yours', undefined, undefined, undefined, 'released', 'withdrawn'])
  assert.equal(refuseRead(at('copying'), OTHER), 'not_yours')
})

test('a withdrawal keeps its first reason', () => {
  const result = afterEvent(at('withdrawn'), EVENTS.withdraw, 2)
  assert.equal(result.ok && result.value.because, 'expired')
})
