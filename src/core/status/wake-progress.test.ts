import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf, worldOf } from '../../../test/record.ts'
import { limits } from '../../config/limits.ts'
import { wakeThatBegins, wakeThatEnds, withDelivery } from './wake-progress.ts'
import type { World } from '../world/world.ts'
import type { VmRecord, PendingWake } from '../vm/record.ts'

const NOW_MS = 1_000_000
const known = <T>(value: T) => ({ known: true, value }) as const
const settled = recordOf({ generations: { desired: 2, observed: 2 } as VmRecord['generations'] })
const sleeper = (changes: Partial<VmRecord> = {}): VmRecord => ({
  ...settled,
  desired: { ...settled.desired, compute: { ...settled.desired.compute, sleepAfterIdleSeconds: 60 } },
  ...changes,
})
const asleep = (wantedSinceMs?: number): World =>
  worldOf({
    unit: known({ kind: 'absent' }),
    monitor: known({ kind: 'silent' }),
    saved: known({
      kind: 'present',
      savedAtMs: 400_000,
      sizeMib: 84,
      memoryMib: 256,
      vcpus: 1,
      form: 'mapped',
    }),
    traffic: known({
      kind: 'watched',
      frames: 'held',
      packets: 8,
      idleMs: 0,
      heldFrames: 1,
      ...(wantedSinceMs === undefined ? {} : { wantedSinceMs }),
    }),
  })

test('a wake by traffic began when the first packet came', () => {
  const wake = wakeThatBegins(sleeper(), asleep(NOW_MS - 3), NOW_MS)
  assert.deepEqual(wake, { reason: 'traffic', atMs: NOW_MS - 3, savedAtMs: 400_000, restores: true })
})

test('a wake that was asked for keeps its reason and its time, whatever else asks for it', () => {
  const asked: PendingWake = { reason: 'console', atMs: 5 }
  const wake = wakeThatBegins(sleeper({ wake: asked }), asleep(NOW_MS), NOW_MS)
  assert.deepEqual(wake, { ...asked, savedAtMs: 400_000, restores: true })
})

const inItsUnit = (): World => ({ ...asleep(NOW_MS), unit: worldOf().unit })

test('a wake restores the guest if no unit has it, and that is noted when it is seen', () => {
  const begun = wakeThatBegins(sleeper(), inItsUnit(), NOW_MS)
  assert.deepEqual(begun, { reason: 'traffic', atMs: NOW_MS, savedAtMs: 400_000 })
  assert.equal(wakeThatBegins(sleeper({ wake: begun }), inItsUnit(), NOW_MS), undefined)
  const later = wakeThatBegins(sleeper({ wake: begun }), asleep(NOW_MS + 5), NOW_MS)
  assert.deepEqual(later, { ...begun, restores: true })
})

test('a wake begins once', () => {
  const wake: PendingWake = { reason: 'traffic', atMs: 5, savedAtMs: 400_000, restores: true }
  assert.equal(wakeThatBegins(sleeper({ wake }), asleep(NOW_MS), NOW_MS), undefined)
})

test('a guest that nothing wants, or that must stop, is not woken', () => {
  assert.equal(wakeThatBegins(sleeper(), asleep(), NOW_MS), undefined)
  const stopped = sleeper({ desired: { ...sleeper().desired, power: 'stopped' } })
  assert.equal(wakeThatBegins(stopped, asleep(NOW_MS), NOW_MS), undefined)
  assert.equal(wakeThatBegins(sleeper({ deleting: true }), asleep(NOW_MS), NOW_MS), undefined)
})

test('a wake has ended when the guest is there with its held frames, and records how long that took', () => {
  const begun: PendingWake = { reason: 'traffic', atMs: 900_000, savedAtMs: 400_000 }
  const wake = withDelivery(begun, { delivered: 3, dropped: 1 }, 900_120)
  const lastWake = { reason: 'traffic', atMs: 900_000, durationMs: 120, heldPackets: 3, droppedPackets: 1 }
  const wakes = { count: 1, sinceMs: settled.createdAtMs }
  assert.deepEqual(wakeThatEnds(sleeper({ wake }), worldOf(), NOW_MS), { lastWake, wakes, shortSleeps: 0 })
})

test('a wake is not over while the guest is paused, may be saved, or frames are held', () => {
  const record = sleeper({ wake: { reason: 'traffic', atMs: 5, savedAtMs: 1 } })
  const { traffic, saved } = asleep(NOW_MS)
  const disk = { sizeMib: 64 }
  for (const world of [
    worldOf({ traffic }),
    worldOf({ saved }),
    worldOf({ monitor: known({ kind: 'paused', disk }) }),
    worldOf({ unit: known({ kind: 'absent' }) }),
  ]) {
    assert.equal(wakeThatEnds(record, world, NOW_MS), undefined)
  }
})

test('a request for a guest that was there is not a wake, and is removed', () => {
  assert.deepEqual(wakeThatEnds(sleeper({ wake: { reason: 'power', atMs: 5 } }), worldOf(), NOW_MS), {})
})

test('a stop removes a request', () => {
  const wake: PendingWake = { reason: 'power', atMs: 5 }
  const stopped = sleeper({ wake, desired: { ...sleeper().desired, power: 'stopped' } })
  assert.deepEqual(wakeThatEnds(stopped, asleep(), NOW_MS), {})
})

test('a stop removes a wake only when the unit that was started for it is gone', () => {
  const wake: PendingWake = { reason: 'power', atMs: 5, savedAtMs: 1, restores: true }
  const stopped = sleeper({ wake, desired: { ...sleeper().desired, power: 'stopped' } })
  assert.equal(wakeThatEnds(stopped, inItsUnit(), NOW_MS), undefined)
  assert.deepEqual(wakeThatEnds(stopped, asleep(), NOW_MS), {})
})

test('a request has ended although the traffic of the guest that was there is unknown; a wake has when its frames are too old', () => {
  const unknown = { known: false, code: 'traffic_failed', retry: 'backoff', message: 'no BPF' } as const
  const world = worldOf({ traffic: unknown })
  assert.deepEqual(wakeThatEnds(sleeper({ wake: { reason: 'power', atMs: 5 } }), world, NOW_MS), {})
  const atMs = NOW_MS - limits.heldFrameAgeMs
  const begun = (at: number): VmRecord =>
    sleeper({ wake: { reason: 'power', atMs: at, savedAtMs: 1, restores: true } })
  assert.equal(wakeThatEnds(begun(atMs + 1), world, NOW_MS), undefined)
  assert.deepEqual(wakeThatEnds(begun(atMs), world, NOW_MS), {})
})

test('only traffic soon after the guest fell asleep makes a short sleep; any other wake ends the row', () => {
  const ended = (reason: PendingWake['reason'], sleptMs: number): number | undefined => {
    const { observed } = sleeper()
    const wake: PendingWake = { reason, atMs: 400_000 + sleptMs, savedAtMs: 400_000 }
    return wakeThatEnds(sleeper({ wake, observed: { ...observed, shortSleeps: 2 } }), worldOf(), NOW_MS)
      ?.shortSleeps
  }
  assert.equal(ended('traffic', limits.shortSleepMs - 1), 3)
  assert.equal(ended('traffic', limits.shortSleepMs), 0)
  assert.equal(ended('power', 1), 0)
})
