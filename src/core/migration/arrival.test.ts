import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ARRIVAL_STAGES, arrivalAfter, copiedFurther } from './arrival.ts'
import type { ArrivalId } from './departure.ts'
import type { MigrationId } from './offer.ts'
import type { Arrival, ArrivalEvent, ArrivalRequest, ArrivalStage } from './arrival.ts'

const at = (stage: ArrivalStage): Arrival => ({
  id: 'arrival-1' as ArrivalId,
  migrationId: 'move-1' as MigrationId,
  source: 'https://192.0.2.2:9001',
  stage,
  wakes: false,
  round: 3,
})

/** Returns the stages in which an event changes the arrival. */
const heardIn = (event: ArrivalEvent): readonly ArrivalStage[] =>
  ARRIVAL_STAGES.filter((stage) => {
    const arrival = at(stage)
    return arrivalAfter(arrival, event) !== arrival
  })

for (const [what, event, stage, change] of [
  ['a round', { kind: 'round_pulled', round: 4 }, 'pulling', { round: 4 }],
  ['the handover', { kind: 'handing_over' }, 'pulling', { expectsGuest: true }],
  [
    'the last round',
    { kind: 'all_pulled', lastRound: 4, wakes: true },
    'pulling',
    { stage: 'pulled', round: 4, wakes: true },
  ],
  ['the release', { kind: 'released', atMs: 7 }, 'pulled', { stage: 'released', releasedAtMs: 7 }],
] as const satisfies readonly (readonly [string, ArrivalEvent, ArrivalStage, Partial<Arrival>])[]) {
  test(`${what} counts only for a VM that is ${stage}`, () => {
    assert.deepEqual(heardIn(event), [stage])
    assert.deepEqual(arrivalAfter(at(stage), event), { ...at(stage), ...change })
  })
}

for (const [request, stage] of [
  ['copy', 'pulling'],
  ['hand_over', 'pulling'],
  ['release', 'pulled'],
] as const satisfies readonly (readonly [ArrivalRequest, ArrivalStage])[]) {
  test(`a refused ${request} counts only for a VM that is ${stage}, and ends its arrival`, () => {
    const event = { kind: 'refused', request, because: 'unknown' } as const
    assert.deepEqual(heardIn(event), [stage])
    assert.deepEqual(arrivalAfter(at(stage), event), { ...at(stage), stage: 'refused', because: 'unknown' })
    assert.deepEqual(heardIn({ ...event, because: 'too_early' }), [], 'it is requested once more')
  })
}

for (const [what, code, stays] of [
  ['of its source', 'source_unreachable', false],
  ['of the pool of this host', 'storage_full', true],
] as const)
  test(`bytes of a round ${stays ? 'do not end' : 'end'} trouble ${what}, and a whole round does`, () => {
    const trouble = { code, retry: 'backoff', message: 'no' } as const
    const arrival: Arrival = { ...at('pulling'), trouble }
    const kept = stays ? { trouble } : {}
    const progress = { round: 4, copiedBytes: 1, totalBytes: 2 }
    assert.deepEqual(copiedFurther(arrival, progress), { ...at('pulling'), progress, ...kept })
    const handingOver = arrivalAfter({ ...arrival, progress }, { kind: 'handing_over' })
    assert.deepEqual(handingOver, { ...at('pulling'), expectsGuest: true, ...kept })
    assert.equal(arrivalAfter(arrival, { kind: 'round_pulled', round: 4 }).trouble, undefined)
  })
