import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf, worldOf } from '../../../test/record.ts'
import { findLaunch, launchBeforeMove } from './launch.ts'
import type { Departure } from '../migration/departure.ts'
import type { MigrationId, NodeName } from '../migration/offer.ts'
import type { Step } from '../plan/step.ts'
import type { VmRecord } from '../vm/record.ts'
import type { ConsoleState } from '../world/world.ts'

const now = { nowMs: 10_000, bootId: 'this-boot' }
const { compute } = recordOf().desired
const launched = recordOf({ launch: { bootId: 'this-boot', atMs: 4000, compute } })
const gone = worldOf({
  unit: { known: true, value: { kind: 'absent' } },
  monitor: { known: true, value: { kind: 'silent' } },
})

test('a VM that runs as recorded has nothing to note', () => {
  assert.deepEqual(findLaunch(launched, worldOf(), now), { kind: 'as-recorded' })
})

test('a unit that is gone although the VM was started in this boot is an exit, with the time it ran', () => {
  const finding = findLaunch(launched, gone, now)
  assert.equal(finding.kind, 'exited')
  assert.equal(finding.kind === 'exited' && finding.ranMs, 6000)
})

test('a failed unit shows its result and status', () => {
  const failed = worldOf({ unit: { known: true, value: { kind: 'failed', result: 'exit-code', status: 7 } } })
  const finding = findLaunch(launched, failed, now)
  assert.match(finding.kind === 'exited' ? finding.because : '', /exit-code, status 7/)
})

test('an exit status of a monitor is shown with its meaning', () => {
  const closed = worldOf({
    unit: { known: true, value: { kind: 'failed', result: 'exit-code', status: 156 } },
  })
  const finding = findLaunch(launched, closed, now)
  const because = 'the monitor ended: exit-code, status 156: its console was closed (SIGHUP)'
  assert.deepEqual(finding, { kind: 'exited', because, isClean: false, status: 156, ranMs: 6000 })
})

test('a monitor that ended cleanly and whose console is gone was hung up', () => {
  const because = (kind: ConsoleState['kind']): string => {
    const value = (kind === 'stored' ? { kind, ptsPath: '/dev/pts/3' } : { kind }) as ConsoleState
    const finding = findLaunch(launched, { ...gone, console: { known: true, value } }, now)
    return finding.kind === 'exited' ? finding.because : ''
  }
  for (const kind of ['absent', 'detached', 'ended'] as const) assert.match(because(kind), /SIGHUP/)
  // The terminal is still open in the daemon, so the end has another reason.
  for (const kind of ['stored', 'unstored'] as const) assert.match(because(kind), /the guest shut down/)
})

test('a guest that has ended, as its monitor says, counts as an exit although the unit is active', () => {
  const broken = worldOf({ monitor: { known: true, value: { kind: 'broken', status: 'shutdown' } } })
  assert.equal(findLaunch(launched, broken, now).kind, 'exited')
})

test('a guest that is stopped because its disk failed did not exit', () => {
  const value = { kind: 'stalled', status: 'io-error', disk: { sizeMib: 64 } } as const
  const stalled = worldOf({ monitor: { known: true, value } })
  assert.deepEqual(findLaunch(launched, stalled, now), { kind: 'as-recorded' })
})

const nextBoot = { ...now, bootId: 'next-boot' }

test('a guest that ran when the host went down, and was not saved, is lost', () => {
  const because = 'the host went down without saving the guest'
  assert.deepEqual(findLaunch(launched, gone, nextBoot), { kind: 'lost', because, ranMs: 6000 })
})

test('a guest that is saved, must end, moves or was noted before is not lost with its host', () => {
  const asleep = { ...gone, saved }
  assert.deepEqual(findLaunch(launched, asleep, nextBoot), { kind: 'as-recorded' })
  const unseen = { ...gone, saved: outOfSight }
  assert.deepEqual(findLaunch({ ...launched, mayBeSaved: true }, unseen, nextBoot), { kind: 'as-recorded' })
  const { launch: _over, ...forgotten } = launched
  for (const record of [
    forgotten,
    { ...launched, stops: { accepted: 1, carriedOut: 0 } },
    { ...launched, deleting: true },
    { ...launched, launch: { bootId: 'this-boot', atMs: 4000, compute, endsQuietly: true } },
    moving,
  ] as const)
    assert.deepEqual(findLaunch(record, gone, nextBoot), { kind: 'as-recorded' })
})

test('a VM that was never seen started did not exit', () => {
  assert.deepEqual(findLaunch(recordOf(), gone, now), { kind: 'as-recorded' })
})

test('a VM that must be stopped or deleted does not exit, it ends', () => {
  const stopped = { ...launched, desired: { ...launched.desired, power: 'stopped' } } as const
  assert.deepEqual(findLaunch(stopped, worldOf(), now), { kind: 'as-recorded' })
  assert.deepEqual(findLaunch(stopped, gone, now), { kind: 'as-recorded' })
  const stoppedBefore = { ...launched, stops: { accepted: 1, carriedOut: 0 } }
  assert.deepEqual(findLaunch(stoppedBefore, gone, now), { kind: 'as-recorded' })
  const { launch: _over, ...forgotten } = stopped
  assert.deepEqual(findLaunch(forgotten, gone, now), { kind: 'as-recorded' })
  assert.deepEqual(findLaunch({ ...launched, deleting: true }, gone, now), { kind: 'as-recorded' })
})

test('a unit that cannot be inspected says nothing', () => {
  const blind = worldOf({
    unit: { known: false, code: 'systemd_unavailable', retry: 'backoff', message: 'no answer' },
  })
  assert.deepEqual(findLaunch(launched, blind, now), { kind: 'as-recorded' })
})

test('a unit whose guest has ended is not adopted, because its end would be noted again and again', () => {
  const broken = worldOf({ monitor: { known: true, value: { kind: 'broken', status: 'internal-error' } } })
  assert.deepEqual(findLaunch(recordOf(), broken, now), { kind: 'as-recorded' })
})

test('a running unit without a launch on record is adopted with its own start time', () => {
  assert.deepEqual(findLaunch(recordOf(), worldOf(), now), {
    kind: 'adopted',
    launch: { bootId: 'this-boot', atMs: 1500, compute },
  })
})

const saved = {
  known: true,
  value: { kind: 'present', savedAtMs: 1, sizeMib: 84, memoryMib: 256, vcpus: 1, form: 'mapped' },
} as const
const outOfSight = {
  known: false,
  code: 'storage_inspection_failed',
  retry: 'backoff',
  message: 'no pool',
} as const

test('a guest that is saved did not exit, and its launch is over', () => {
  assert.deepEqual(findLaunch(launched, { ...gone, saved }, now), { kind: 'asleep' })
  assert.deepEqual(findLaunch(launched, { ...worldOf(), saved }, now), { kind: 'as-recorded' })
  assert.deepEqual(findLaunch(recordOf(), { ...gone, saved }, now), { kind: 'as-recorded' })
})

test('a guest whose monitor broke when it was saved did not exit', () => {
  const broken = worldOf({ monitor: { known: true, value: { kind: 'broken', status: 'internal-error' } } })
  assert.deepEqual(findLaunch(launched, { ...broken, saved }, now), { kind: 'as-recorded' })
  const noted = { ...launched, mayBeSaved: true } as const
  assert.deepEqual(findLaunch(noted, { ...broken, saved: outOfSight }, now), { kind: 'as-recorded' })
})

test('a guest that may be saved in a pool out of sight is not taken for one that exited', () => {
  const noted = { ...launched, mayBeSaved: true } as const
  assert.deepEqual(findLaunch(noted, { ...gone, saved: outOfSight }, now), { kind: 'as-recorded' })
  assert.equal(findLaunch(launched, { ...gone, saved: outOfSight }, now).kind, 'exited')
})

const moving = recordOf({
  departure: {
    id: 'move-7' as MigrationId,
    node: 'node-2' as NodeName,
    mode: 'cold',
    stage: 'handing_over',
    sinceMs: 5000,
  },
  launch: { bootId: 'this-boot', atMs: 4000, compute },
})
const END: Step = { kind: 'unit.ensure-stopped', because: 'the VM moves' }

test('a guest that the daemon ends for a move without its memory did not exit, also if the move is withdrawn', () => {
  const launch = launchBeforeMove(moving, [END])
  assert.deepEqual(launch, { ...moving.launch, endsQuietly: true })
  const withdrawn = { ...moving.departure, stage: 'withdrawn' } as Departure
  for (const record of [
    { ...moving, launch },
    { ...moving, launch, departure: withdrawn },
  ] as VmRecord[]) {
    assert.deepEqual(findLaunch(record, gone, now), { kind: 'ended-quietly' })
  }
})

test('a guest whose move is withdrawn before the daemon has ended it goes on as it was started', () => {
  const ending = { ...moving, launch: launchBeforeMove(moving, [END]) } as VmRecord
  assert.deepEqual(findLaunch(ending, worldOf(), now), { kind: 'as-recorded' })
  const withdrawn = { ...ending, departure: { ...ending.departure, stage: 'withdrawn' } } as VmRecord
  assert.deepEqual(findLaunch(withdrawn, worldOf(), now), { kind: 'adopted', launch: moving.launch })
})

test('a guest that ends by itself before the daemon ends it for a move has exited', () => {
  assert.equal(findLaunch(moving, gone, now).kind, 'exited')
})

test('only the end of a unit for a move without memory is noted before it is done, and once', () => {
  const live = { ...moving, departure: { ...moving.departure, mode: 'live' } } as VmRecord
  const noted = { ...moving, launch: launchBeforeMove(moving, [END]) } as VmRecord
  for (const record of [live, noted, launched]) assert.equal(launchBeforeMove(record, [END]), undefined)
  assert.equal(launchBeforeMove(moving, []), undefined)
})

test('a unit that was started after a launch whose end is quiet is adopted with its own start time', () => {
  const earlier = {
    bootId: 'this-boot',
    atMs: 1000,
    compute: { ...compute, memoryMib: 128 },
    endsQuietly: true,
  } as const
  assert.deepEqual(findLaunch(recordOf({ launch: earlier }), worldOf(), now), {
    kind: 'adopted',
    launch: { bootId: 'this-boot', atMs: 1500, compute },
  })
})
