import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { deleteVm } from '../../src/commands/vm/delete-vm.ts'
import { setPower } from '../../src/commands/vm/set-power.ts'
import { limits } from '../../src/config/limits.ts'
import { SignedUrl } from '../../src/core/outbound/signed-url.ts'
import { urlsOf } from '../snapshot-stage.ts'
import { pick, randomFrom } from './random.ts'
import { calm, SnapshotSimulation } from './snapshot-simulation.ts'
import type { SnapshotId } from '../../src/core/snapshots/record.ts'
import type { DesiredPower } from '../../src/core/desired.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Odds } from './chaos.ts'

const vm = 'a' as VmId
const id = 'snap' as SnapshotId
/** More moments than a snapshot has; a search that gets here does not end. */
const MOMENTS_MAX = 1000
const ROUNDS_MAX = 60

/**
 * Runs a whole snapshot of a running guest, in three parts. One part has an expired URL, one comes to a busy store, and
 * the answer to the completion is lost. The daemon dies at the given moment.
 */
async function live(simulation: SnapshotSimulation, dieAt: number): Promise<void> {
  await simulation.boot(calm)
  simulation.create(vm, 0)
  await simulation.round(calm)
  simulation.life.chaos.restart({ ...calm, dieAt })
  const upload = simulation.upload(id)
  const expired = new SignedUrl(upload.partUrl(2))
  upload.expireUrls()
  const { parts, ...rest } = urlsOf(upload)
  const [first, , ...others] = parts
  assert.ok(first !== undefined)
  simulation.busyOnce('putPart', 'after')
  simulation.busyOnce('complete', 'after')
  simulation.start(id, vm, { ...rest, parts: [first, expired, ...others] })
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    await simulation.round(calm)
    if (simulation.store.snapshots.get(id)?.stage === 'completed') break
    simulation.supply()
    await simulation.round(calm)
    simulation.clock.advance(limits.retryBackoffMsMin)
  }
  // Staging that could not be removed waits for a sweep.
  await sweep(simulation)
}

async function sweep(simulation: SnapshotSimulation): Promise<void> {
  simulation.clock.advance(limits.stagingSweepMs)
  await simulation.round(calm)
  await simulation.round(calm)
}

for (const [quota, stagingQuotaMib, isKept] of [
  ['a quota that it fits into', 4, true],
  ['a smaller quota', 2, false],
] as const) {
  test(`under ${quota}, a daemon that dies at any one moment of a snapshot or its deletion continues`, async () => {
    let moments = 0
    for (let dieAt = 1; dieAt <= MOMENTS_MAX; dieAt += 1) {
      const simulation = new SnapshotSimulation({ seed: 1, forgetsCompleted: true, stagingQuotaMib })
      try {
        await live(simulation, dieAt)
        const record = simulation.store.snapshots.get(id)
        assert.ok(record?.stage === 'completed', `it is ${record?.stage}: ${record?.trouble?.message}`)
        simulation.checkObject(record)
        await simulation.checkRest()
        assert.deepEqual(simulation.store.frozenGuests.all(), [])
        assert.equal(record.staged.bytes > 0, isKept, 'what stays in staging')
        simulation.drop(id)
        await simulation.round(calm)
        await sweep(simulation)
        assert.deepEqual(await simulation.host.staging.list(), [])
        if (simulation.deaths === 0) break
        moments = dieAt
      } catch (cause) {
        throw new Error(`it died at moment ${dieAt}`, { cause })
      } finally {
        simulation.close()
      }
    }
    assert.ok(moments > 60 && moments < MOMENTS_MAX, `there were ${moments} moments`)
  })
}

/** A developer runs more seeds by hand: SIM_SEEDS=500 node --test test/sim/snapshots.test.ts */
const seeds = Number(process.env['SIM_SEEDS'] ?? 12)
const EDITS = 25
const vms: [VmId, ...VmId[]] = ['a' as VmId, 'b' as VmId]
const snaps = ['s1', 's2', 's3'] as string[] as [SnapshotId, ...SnapshotId[]]
const powers: [DesiredPower, ...DesiredPower[]] = ['running', 'running', 'paused', 'stopped']
/** Each of the three snapshots has 2.2 MiB. */
const QUOTAS_MIB: [number, ...number[]] = [2, 3, 5, 8]
/** Ends of a history besides success: its VM is gone, or its upload is. */
const FAILURES = ['vm_gone', 'upload_gone']

/** Does one random thing that a controller, a store or time does. */
async function edit(simulation: SnapshotSimulation): Promise<void> {
  const { random, clock, context } = simulation
  const one = pick(random, vms)
  const of = pick(random, snaps)
  const edits: [() => void, ...(() => void)[]] = [
    () => simulation.create(one, vms.indexOf(one)),
    () => simulation.start(of, one),
    () => simulation.start(of, one),
    () => simulation.start(of, one, { firstPart: 1, parts: [] }),
    () => simulation.supply(),
    () => simulation.supply(),
    () => simulation.upload(of).expireUrls(),
    () => simulation.busyOnce(pick(random, ['putPart', 'complete']), pick(random, ['before', 'after'])),
    () => void setPower(context, one, pick(random, powers)),
    () => void (random() < 0.5 && simulation.drop(of)),
    () => void (random() < 0.2 && deleteVm(context, one)),
    () => clock.advance(Math.floor(random() * 5000)),
  ]
  pick(random, edits)()
  for (let turns = Math.floor(random() * 60); turns > 0; turns -= 1) await setImmediate()
}

type History = { readonly completed: number; readonly kept: number }

async function history(simulation: SnapshotSimulation, odds: Odds): Promise<History> {
  await simulation.boot(odds)
  for (const [index, one] of vms.entries()) simulation.create(one, index)
  for (let count = 0; count < EDITS; count += 1) {
    await edit(simulation)
    if (simulation.random() < 0.4) await simulation.round(odds)
    else simulation.guestsWrite()
  }
  simulation.heal()
  // A VM that was stopped before its disk was made has no disk to capture.
  for (const one of vms) setPower(simulation.context, one, 'running')
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    await simulation.round(calm)
    simulation.supply()
    if (simulation.store.snapshots.unfinished().length === 0) break
    simulation.clock.advance(limits.retryBackoffMsMax)
  }
  // Staging that could not be removed waits for a sweep.
  simulation.clock.advance(limits.stagingSweepMs)
  await simulation.round(calm)
  await simulation.checkRest()
  const records = simulation.records()
  for (const record of records) {
    if (record.stage === 'completed') simulation.checkObject(record)
    else assert.ok(FAILURES.includes(record.trouble?.code ?? ''), `${record.id}: ${JSON.stringify(record)}`)
  }
  const kept = records.filter(({ stage, staged }) => stage === 'completed' && staged.bytes > 0).length
  return { completed: records.filter(({ stage }) => stage === 'completed').length, kept }
}

for (const [name, odds] of Object.entries({
  'a host whose calls fail before and after their effect': {
    before: 0.03,
    after: 0.03,
    silence: 0.2,
    crash: 0,
  },
  'a daemon that dies at any moment': { before: 0, after: 0, crash: 0.01 },
  'a host that fails under a daemon that dies': { before: 0.02, after: 0.02, silence: 0.2, crash: 0.005 },
})) {
  test(`${name}: every snapshot ends, and a completed one is the disk as it was`, async () => {
    let [completed, kept] = [0, 0]
    for (let seed = 1; seed <= seeds; seed += 1) {
      const forgetsCompleted = seed % 2 === 0
      const stagingQuotaMib = pick(randomFrom(seed), QUOTAS_MIB)
      const simulation = new SnapshotSimulation({ seed, forgetsCompleted, stagingQuotaMib })
      try {
        const ended = await history(simulation, odds)
        completed += ended.completed
        kept += ended.kept
      } catch (cause) {
        throw new Error(`seed ${seed}`, { cause })
      } finally {
        simulation.close()
      }
    }
    assert.ok(completed > seeds, `${completed} were completed`)
    assert.ok(kept > 0 && kept < completed, `${kept} of ${completed} are still staged`)
  })
}
