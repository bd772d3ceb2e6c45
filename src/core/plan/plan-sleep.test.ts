import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseCases } from '../../../test/plan-cases/parse-case.ts'
import { limits } from '../../config/limits.ts'
import { sleepDueMs, sleepFault, waitsForPlace } from './plan-sleep.ts'
import type { PlanCase } from '../../../test/plan-cases/parse-case.ts'

const SETTLED = { desired: 'running sleep=60', recorded: 'settled running=600', traffic: 'flowing idle=10' }

/** Returns a running guest that was idle for 10 s of 60 s, but for the rooms that are described in words. */
function sleeper(rooms: Readonly<Record<string, string>> = {}): PlanCase {
  const lines = Object.entries({ ...SETTLED, ...rooms }).map(([room, words]) => `${room}: ${words}\n`)
  return parseCases(`# A sleeper\n${lines.join('')}---\nsettled\n`)[0] ?? assert.fail()
}

function dueMs(rooms: Readonly<Record<string, string>>): number | undefined {
  const { record, world, facts } = sleeper(rooms)
  return sleepDueMs(record, world, facts)
}

test('a guest is due to sleep when its timeout ends, and is looked at not too often before', () => {
  assert.equal(dueMs({}), 50_000)
  assert.equal(dueMs({ traffic: 'flowing idle=60' }), limits.sleepRecheckMs)
})

test('a guest is idle for no longer than it runs, unless the clock was set back since its start', () => {
  assert.equal(dueMs({ recorded: 'settled running=5' }), 55_000)
  assert.equal(dueMs({ recorded: 'settled running=-5' }), 50_000)
})

test('while memory is short a guest is due earlier, unless it lends none or flaps', () => {
  const memory = 'others-wait'
  const earlyMs = Math.max(limits.sleepRecheckMs, 60_000 * limits.earlySleepShare - 10_000)
  assert.equal(dueMs({ memory }), earlyMs)
  assert.equal(dueMs({ memory, desired: 'running sleep=60 wake=guaranteed' }), 50_000)
  const { record, world, facts } = sleeper({ memory })
  const flaps = { ...record, observed: { ...record.observed, shortSleeps: limits.shortSleepsFree + 1 } }
  assert.equal(sleepDueMs(flaps, world, facts), 110_000)
})

test('a guest that has just woken stays awake for a while, unless the clock was set back since', () => {
  const { record, world, facts } = sleeper({ traffic: 'flowing idle=60' })
  const wokenAt = (atMs: number): number | undefined => {
    const lastWake = { reason: 'traffic', atMs, durationMs: 100 } as const
    return sleepDueMs(
      { ...record, observed: { ...record.observed, lastWake } } as typeof record,
      world,
      facts,
    )
  }
  assert.equal(wokenAt(facts.nowMs - 100), limits.awakeMsMin)
  assert.equal(wokenAt(facts.nowMs - 99), limits.sleepRecheckMs)
})

for (const [what, rooms] of [
  ['must stop', { desired: 'stopped sleep=60' }],
  ['must be paused', { desired: 'paused sleep=60' }],
  ['has a new desired state', { recorded: 'running=600' }],
  ['is not seen running', { recorded: 'settled' }],
  ['has another fault', { recorded: 'settled running=600 fault=network.ensure-tap' }],
  ['is being woken', { recorded: 'settled running=600 wake=console' }],
  ['never sleeps', { desired: 'running' }],
  ['has no network', { desired: 'running sleep=60 no-network' }],
  ['has a monitor that cannot save', { 'monitor-without': 'save' }],
  ['has a unit that ends', { unit: 'deactivating' }],
  ['is paused', { monitor: 'paused' }],
  ['has a console that is not stored', { console: 'unstored' }],
  ['has a saved state', { saved: 'present' }],
  ['has frames that are held', { traffic: 'held' }],
  ['has traffic that is not watched', { traffic: 'unwatched' }],
  ['has a pool that is not seen', { storage: 'unknown storage_inspection_failed' }],
  ['has a firewall that is not seen', { firewall: 'unknown network_failed' }],
  ['has a saved state that is not known', { saved: 'unknown storage_inspection_failed' }],
  ['has a console that is not seen', { console: 'unknown systemd_unavailable' }],
] as const satisfies readonly (readonly [string, Readonly<Record<string, string>>])[]) {
  test(`no time makes a guest due to sleep that ${what}`, () => {
    assert.equal(dueMs(rooms), undefined)
    const { record, world, facts } = sleeper({ traffic: 'flowing idle=60', ...rooms, saves: 'full' })
    assert.equal(waitsForPlace(record, world, facts), false)
  })
}

test('a guest waits for other saves only once it is due, and then time does not make it due', () => {
  const waits = (rooms: Readonly<Record<string, string>>): boolean => {
    const { record, world, facts } = sleeper(rooms)
    return waitsForPlace(record, world, facts)
  }
  const [saves, due] = ['full', 'flowing idle=60']
  assert.deepEqual(
    [waits({ saves }), waits({ traffic: due }), waits({ saves, traffic: due })],
    [false, false, true],
  )
  assert.deepEqual([dueMs({ saves }), dueMs({ saves, traffic: due })], [50_000, undefined])
})

test('a failed save is shown until the desired state changes, or the guest must not sleep any more', () => {
  const shown = (desired: string, fault: string, recorded = 'settled'): string | undefined =>
    sleepFault(sleeper({ desired, recorded: `${recorded} running=600 fault=${fault}` }).record)?.step
  const [sleeps, save] = ['running sleep=60', 'monitor.ensure-saved']
  assert.equal(shown(sleeps, save), save)
  assert.equal(shown(sleeps, 'traffic.ensure-held'), 'traffic.ensure-held')
  assert.equal(shown(sleeps, 'network.ensure-tap'), undefined)
  assert.equal(shown('running', save), undefined)
  assert.equal(shown('paused sleep=60', save), undefined)
  assert.equal(sleepFault(sleeper().record), undefined)
  const { record } = sleeper({ recorded: `settled running=600 fault=${save}` })
  const later = { ...record, generations: { ...record.generations, desired: record.generations.desired + 1 } }
  assert.equal(sleepFault(later as typeof record), undefined)
})
