import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deleteVm } from '../../commands/vm/delete-vm.ts'
import { rebuildVm } from '../../commands/vm/rebuild-vm.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { composed } from '../../../test/composed.ts'
import { FakeCapacity } from '../../../test/fakes/fake-capacity.ts'
import { reconcileStage } from '../../../test/reconcile-stage.ts'
import { imageOn } from '../../../test/sim/requests.ts'
import { pick, randomFrom } from '../../../test/sim/random.ts'
import { Restoring } from '../../store/backup/restoring.ts'
import { writeBackup } from '../../store/backup/write-backup.ts'
import { compareWithHost } from './restore.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'

const SEEDS = 60
const VMS = 2
const STEPS = 12
const IDLE_MS = 60_000
const DOINGS = [
  ...['start', 'start', 'start', 'stop', 'stop', 'stop', 'pause', 'delete', 'rebuild'],
  ...['create', 'create', 'create', 'idle', 'idle', 'idle'],
] as const

const ids = Array.from({ length: VMS }, (_, n) => `vm-${n}` as VmId)

type Stage = Awaited<ReturnType<typeof reconcileStage>>

/** Does something at random that a controller, or the guests, may do; all of it is carried out. */
async function act(on: Stage, random: () => number): Promise<void> {
  const n = Math.floor(random() * VMS)
  const id = ids[n] as VmId
  const there = on.store.vms.get(id) !== undefined
  const doing = pick(random, DOINGS)
  if (doing === 'idle') return on.later(IDLE_MS)
  if (doing === 'create' && !there) {
    const compute = { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 60 }
    on.create({ compute, network: { ipv4Address: `192.0.2.${10 + n}` } }, id)
  }
  if (!there) return on.idle()
  if (doing === 'start') setPower(on.context, id, 'running')
  if (doing === 'stop') setPower(on.context, id, 'stopped')
  if (doing === 'pause') setPower(on.context, id, 'paused')
  if (doing === 'rebuild') rebuildVm(on.context, id, imageOn(on.host, 1))
  if (doing === 'delete') deleteVm(on.context, id)
  return on.idle()
}

/** The guest of each VM that has one, by the number of its life. */
async function guestsOf({ host }: Stage): Promise<ReadonlyMap<VmId, unknown>> {
  const guests = new Map<VmId, unknown>()
  for (const id of ids) {
    if (host.fakeUnits.stateOf(id).kind === 'active') guests.set(id, host.monitor.memoryOf(id).life)
    else if ((await host.savedStates.describe(id)) !== undefined) guests.set(id, 'asleep')
  }
  return guests
}

/** Returns the VMs that were to lose something, the guests, and the guests that slept and were to end. */
async function run(
  t: TestContext,
  seed: number,
): Promise<{ losses: number; guests: number; sleepersEnded: number }> {
  const random = randomFrom(seed)
  const on = await reconcileStage(t)
  const file = `${on.directory}/b.vmhostd`
  for (let step = 0; step < STEPS; step += 1) await act(on, random)
  writeBackup(on.directory, file, { about: { madeAtMs: 1, version: '1.2.3', hostId: 'host-1' }, files: [] })
  for (let step = 0; step < STEPS; step += 1) await act(on, random)
  await on.stop()
  const at = { stateDirectory: on.directory, directory: `${on.directory}/restore.new` }
  const restoring = new Restoring(file, at, { first: 600_000, count: 10 })
  try {
    const { store } = restoring
    const words = { end: [], leaveOut: [], noneMoved: true, poolLost: false }
    const { unsaid } = await compareWithHost(store, on.host, {
      words,
      moved: { to: new Map(), comingFrom: new Map(), stayed: new Set() },
      nowMs: on.clock.now(),
    })
    const [before, disks] = [await guestsOf(on), new Set(on.host.storage.disks.keys())]
    const next = composed({ store, host: on.host, instead: { capacity: new FakeCapacity() } })
    await next.reconciler.start()
    await next.reconciler.idle()
    const after = await guestsOf(on)
    await next.reconciler.stop()
    for (const [id, life] of before) {
      if (unsaid.includes(id)) continue
      assert.equal(after.get(id), life, `seed ${seed}: the guest of ${id} was lost without a word`)
    }
    for (const id of disks) {
      if (!unsaid.includes(id)) assert.ok(on.host.storage.disks.has(id), `seed ${seed}: the disk of ${id}`)
    }
    // A sleeper whose disk was rebuilt since ends when an operator has moved that disk away.
    for (const id of unsaid.filter((one) => store.vms.get(one)?.observed.fault?.code !== 'disk_foreign'))
      assert.notEqual(after.get(id) ?? 'gone', before.get(id), `seed ${seed}: ${id} was to lose something`)
    const sleepersEnded = unsaid.filter((id) => before.get(id) === 'asleep').length
    return { losses: unsaid.length, guests: before.size, sleepersEnded }
  } finally {
    restoring.remove()
  }
}

test('the next daemon ends and removes what the comparison said, and nothing else', async (t) => {
  const sums = { losses: 0, guests: 0, sleepersEnded: 0 }
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const found = await run(t, seed)
    for (const key of ['losses', 'guests', 'sleepersEnded'] as const) sums[key] += found[key]
  }
  assert.ok(
    sums.losses >= 10 && sums.guests >= 20 && sums.sleepersEnded >= 3,
    `${JSON.stringify(sums)} in ${SEEDS} runs show little`,
  )
})
