import assert from 'node:assert/strict'
import { test } from 'node:test'
import { markOfTests, recordOf } from '../../../test/record.ts'
import { judgeRestored, losesSomething } from './judge-restored.ts'
import type { Desired } from '../desired.ts'
import type { Generation } from '../ids.ts'
import type { Departure } from '../migration/departure.ts'
import type { VmRecord } from '../vm/record.ts'
import type { DiskState } from '../world/world.ts'
import type { FoundVm } from './judge-restored.ts'

const NOW = 100_000
const disk = { kind: 'present', sizeMib: 64 } as const
const active = { kind: 'active', mainPid: 42, startedAtMs: 1500, mark: markOfTests } as const
const runs: FoundVm = { unit: active, disk, isSaved: false }
const asleep: FoundVm = { unit: { kind: 'absent' }, disk, isSaved: true }
const off: FoundVm = { unit: { kind: 'absent' }, disk, isSaved: false }
const gone: FoundVm = { unit: { kind: 'absent' }, disk: { kind: 'absent' }, isSaved: false }

const { desired } = recordOf()
const wanting = (changes: Partial<Desired>): Partial<VmRecord> => ({ desired: { ...desired, ...changes } })
const seen = { state: 'running', sinceMs: 1500, disk: { sizeMib: 64 } } as const
const departing = (stage: Departure['stage']): Partial<VmRecord> => ({
  departure: { id: 'm-1', node: 'host-2', mode: 'warm', stage, sinceMs: 1 } as unknown as Departure,
})
const rebuilding = (rebuild: number): Partial<VmRecord> => ({
  ...wanting({ image: { ...desired.image, rebuild } }),
  observed: seen,
})
const ofRebuild = (rebuild: number): DiskState => ({
  ...disk,
  note: { mark: markOfTests, rootfsSha256: desired.image.rootfsSha256, rebuild },
})
const arriving = (stage: 'pulling' | 'pulled' | 'refused' | 'released'): Partial<VmRecord> => ({
  arrival: { stage } as unknown as NonNullable<VmRecord['arrival']>,
})

const owingStop: Partial<VmRecord> = { stops: { accepted: 2, carriedOut: 1 } }
const endedForGood: Partial<VmRecord> = { observed: { ...seen, endedAtPower: 2 as Generation } }
const mayRunThere: FoundVm = { ...asleep, mayHaveMoved: true }

type Case = readonly [what: string, record: Partial<VmRecord>, found: FoundVm, kind: string]

const cases: readonly Case[] = [
  ['runs and should', {}, runs, 'fits'],
  ['sleeps and should run', {}, asleep, 'fits'],
  ['is off and should run', {}, off, 'starts'],
  ['is off and should be', wanting({ power: 'stopped' }), off, 'fits'],
  ['was started since', wanting({ power: 'stopped' }), runs, 'ends'],
  ['was started since, and sleeps', wanting({ power: 'stopped' }), asleep, 'ends'],
  ['owed a stop that is carried out by now', owingStop, runs, 'ends'],
  ['ended for good and was started since', endedForGood, runs, 'ends'],
  ['was being handed over, and stayed', departing('handing_over'), runs, 'ends'],
  ['was offered', departing('offered'), runs, 'fits'],
  ['was released, and has come back', departing('released'), off, 'deletes'],
  ['was coming, and is here', arriving('pulling'), runs, 'deletes'],
  ['was coming, and sleeps here', arriving('pulling'), asleep, 'deletes'],
  ['was coming, and is off here', arriving('pulling'), off, 'deletes'],
  [
    'was coming to be off, and is here',
    { ...wanting({ power: 'stopped' }), ...arriving('pulling') },
    off,
    'deletes',
  ],
  ['was refused, and has come later', arriving('refused'), off, 'deletes'],
  ['was refused, and is not here', arriving('refused'), gone, 'fits'],
  ['was nearly here, and runs', arriving('pulled'), runs, 'ends'],
  ['was nearly here, and is off', arriving('pulled'), off, 'fits'],
  ['has come', arriving('released'), runs, 'fits'],
  ['was coming, and is not here', arriving('pulling'), gone, 'fits'],
  ['was under deletion, and has a disk', { deleting: true }, off, 'deletes'],
  ['was under deletion, and is gone', { deleting: true }, gone, 'fits'],
  [
    'was stopped, to be deleted by now',
    {
      ...wanting({ power: 'stopped', exit: { restartPolicy: 'always', deleteAfterSeconds: 10 } }),
      observed: { ...seen, state: 'stopped' },
    },
    runs,
    'deletes',
  ],
  ['owed a rebuild, and has the old disk', rebuilding(2), off, 'deletes'],
  ['owed a rebuild, and runs', rebuilding(2), { ...runs, disk: ofRebuild(1) }, 'deletes'],
  ['owed a rebuild that is done by now', rebuilding(2), { ...off, disk: ofRebuild(2) }, 'starts'],
  ['owed a rebuild, and has no disk', rebuilding(2), gone, 'starts'],
  ['was released since, and sleeps here', {}, { ...asleep, movedTo: 'host-2' }, 'moved'],
  ['was released since, and has a disk', {}, { ...off, movedTo: 'host-2' }, 'moved'],
  ['was released since, and had no disk yet', {}, { ...gone, movedTo: 'host-2' }, 'moved'],
  ['may have moved, and sleeps here', {}, { ...asleep, mayHaveMoved: true }, 'unsure'],
  ['may have moved, and is off', {}, { ...off, mayHaveMoved: true }, 'unsure'],
  ['may have moved, and had no disk yet', {}, { ...gone, mayHaveMoved: true }, 'unsure'],
  ['may have moved, and owes a restart', owingStop, { ...off, mayHaveMoved: true }, 'unsure'],
  ['may have moved, and owes a rebuild', rebuilding(2), { ...off, mayHaveMoved: true }, 'unsure'],
  ['may have moved, and was being handed over', departing('handed_over'), mayRunThere, 'unsure'],
  ['may have moved, but runs here', {}, { ...runs, mayHaveMoved: true }, 'fits'],
  ['may have moved, and should be off', wanting({ power: 'stopped' }), mayRunThere, 'ends'],
  ['may have moved, and ended for good', endedForGood, { ...off, mayHaveMoved: true }, 'fits'],
  ['may have moved, and is under deletion', { deleting: true }, mayRunThere, 'deletes'],
  ['may have moved, as the record says too', departing('released'), mayRunThere, 'deletes'],
  ['may have moved, and has no disk any more', { observed: seen }, { ...gone, mayHaveMoved: true }, 'lacks'],
  ['was deleted since', { observed: seen }, gone, 'lacks'],
  ['has another unit', {}, { ...runs, unit: { kind: 'foreign', because: 'x' } }, 'lacks'],
  [
    'has another disk',
    wanting({ power: 'stopped' }),
    { ...off, disk: { kind: 'foreign', because: 'x' } },
    'lacks',
  ],
]

for (const [what, changes, found, kind] of cases) {
  test(`the record of a VM that ${what}: ${kind}`, () => {
    const judged = judgeRestored(recordOf(changes), found, NOW)
    assert.equal(judged.kind, kind, judged.because)
    assert.equal(losesSomething(judged), kind === 'ends' || kind === 'deletes')
  })
}

test('a guest that runs on a disk which the record does not fit is named, with the way out', () => {
  const newer = { kind: 'foreign', because: 'it is of rebuild 1', ofRebuild: 1 } as const
  const { because } = judgeRestored(recordOf(), { ...runs, disk: newer }, NOW)
  assert.match(because, /^its guest runs, and its disk is left alone: it is of rebuild 1; .*--leave-out/)
})

test('a disk that is gone is named as deleted, or as lost with its pool', () => {
  const had = recordOf({ observed: seen })
  assert.match(judgeRestored(had, gone, NOW).because, /it was deleted since/)
  assert.match(judgeRestored(had, { ...gone, isPoolLost: true }, NOW).because, /is lost with the pool$/)
})

test('a disk that has grown since the record is named, with the way to make the record fit', () => {
  const grown = { ...disk, sizeMib: 128 }
  const words = 'its disk has 128 MiB, and the record says 64: then vmhostctl vm resize web-1'
  assert.equal(judgeRestored(recordOf(), { ...runs, disk: grown }, NOW).because, `its guest runs; ${words}`)
  const stopped = recordOf(wanting({ power: 'stopped' }))
  assert.ok(judgeRestored(stopped, { ...off, disk: grown }, NOW).because.endsWith(words))
})
