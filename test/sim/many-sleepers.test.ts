import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createVm } from '../../src/commands/vm/create-vm.ts'
import { limits } from '../../src/config/limits.ts'
import { Store } from '../../src/store/store.ts'
import { composed } from '../composed.ts'
import { FakeCapacity } from '../fakes/fake-capacity.ts'
import { FakeClock } from '../fakes/fake-clock.ts'
import { FakeHost } from '../fakes/fake-host.ts'
import { requestOn, SLEEPER } from './requests.ts'
import type { TestContext } from 'node:test'
import type { CreateVm } from '../../src/core/vm/create.ts'
import type { UserId, VmId } from '../../src/core/ids.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'

const SLEEPERS = 10_000
const WOKEN = 100
/** Few VMs are saved at a time, and the end of each save starts the next. */
const ROUNDS_MAX = 1000
const never = new AbortController().signal

const template = 'vm-00000' as VmId
const others = Array.from({ length: SLEEPERS - 1 }, (_, index) => nameOf(index + 1))

function nameOf(index: number): VmId {
  return `vm-${String(index).padStart(5, '0')}` as VmId
}

/** A host in memory with as many console places as a real one, and a daemon on it that can be restarted. */
function stageOf(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-sleepers-'))
  const store = new Store(directory, { first: 600_000, count: SLEEPERS + 1 }, { datasync: async () => {} })
  const clock = new FakeClock()
  const host = new FakeHost(clock, store.storeId)
  host.consoles.limit(limits.consolePlacesMax)
  const capacity = new FakeCapacity()
  capacity.total.consolePlaces = limits.consolePlacesMax
  const begin = () => composed({ store, host, instead: { capacity } })
  let parts = begin()
  t.after(async () => {
    await parts.reconciler.stop()
    store.close()
    rmSync(directory, { recursive: true })
  })
  return {
    ...{ store, clock, host },
    parts: () => parts,
    restart: async (): Promise<void> => {
      await parts.reconciler.stop()
      parts = begin()
      await parts.reconciler.start()
      await parts.reconciler.idle()
    },
  }
}

type Stage = ReturnType<typeof stageOf>

const requestOf = (host: FakeHost, index: number): CreateVm => ({
  ...requestOn(host, 0),
  compute: SLEEPER,
  network: { ipv6Address: `2001:db8::${(index + 1).toString(16)}` },
})

/** Makes the first of the VMs, which falls asleep normally. */
async function makeTemplate({ host, clock, store, parts }: Stage): Promise<VmRecord> {
  await parts().reconciler.start()
  assert.ok(createVm(parts().commands, template, requestOf(host, 0)).ok)
  await parts().reconciler.idle()
  clock.advance(SLEEPER.sleepAfterIdleSeconds * 1000)
  await parts().reconciler.idle()
  const record = store.vms.get(template)
  assert.ok(record?.observed.state === 'sleeping')
  return record
}

/**
 * Copies the records and the saved state of the first VM for the others. Running each one first would take a minute.
 */
async function placeAsleep({ host, store, clock }: Stage, first: VmRecord): Promise<void> {
  const { storage, savedStates, savedFiles } = host
  const inputs = store.vms.inputs(template)
  const [disk, seed, terms] = [
    storage.disks.get(template),
    storage.seeds.get(template),
    savedStates.metadataOf(template),
  ]
  const memory = savedFiles.at(savedStates.paths(template).published)?.memory
  assert.ok(disk !== undefined && seed !== undefined && terms !== undefined && memory !== undefined)
  const nowMs = clock.now()
  store.transaction(() => {
    for (const [index, id] of others.entries()) {
      const userId = (first.host.userId + index + 1) as UserId
      assert.ok(first.desired.network !== undefined)
      const network = { ...first.desired.network, ipv6Address: `2001:db8::${(index + 2).toString(16)}` }
      const { metadata, operationId, desired, monitor } = first
      store.vms.insert({
        ...{ id, userId, monitor, metadata, inputs, operationId, nowMs },
        desired: { ...desired, network },
      })
      const mark = { storeId: store.storeId, createdAtMs: nowMs }
      storage.disks.set(id, { ...disk, userId, note: { mark } })
      storage.seeds.set(id, { ...seed, usableBy: userId })
      savedFiles.write(savedStates.paths(id).writing, { id, memory, whole: true })
    }
    return { ok: true }
  })
  for (const id of others) {
    await savedStates.publish(id, terms, never)
    store.vms.recordProgress(id, {
      observed: first.observed,
      observedGeneration: first.generations.observed,
      nowMs,
    })
  }
}

test('10,000 VMs sleep on one host, without a console place, and any of them wakes', async (t) => {
  const stage = stageOf(t)
  const { host, clock, store, parts, restart } = stage
  await placeAsleep(stage, await makeTemplate(stage))
  await restart()
  const statesNow = (): Map<string, number> => {
    const counts = new Map<string, number>()
    for (const id of store.vms.ids()) {
      const { observed, generations } = store.vms.get(id) as VmRecord
      const reached = generations.desired === generations.observed ? '' : ' on its way'
      const state = `${observed.state}${reached}${observed.fault === undefined ? '' : ` ${observed.fault.code}`}`
      counts.set(state, (counts.get(state) ?? 0) + 1)
    }
    return counts
  }
  assert.deepEqual(statesNow(), new Map([['sleeping', SLEEPERS]]))
  assert.deepEqual(await host.consoles.stored(), [])

  // Spread over all of them.
  const woken = others.filter((_, index) => index % (SLEEPERS / WOKEN) === 0)
  for (const id of woken) {
    const record = store.vms.get(id)
    assert.ok(record !== undefined)
    host.traffic.receive(record.host.device, { name: `for ${id}` })
  }
  await parts().reconciler.idle()
  assert.deepEqual(
    statesNow(),
    new Map([
      ['sleeping', SLEEPERS - WOKEN],
      ['running', WOKEN],
    ]),
  )
  assert.equal((await host.consoles.stored()).length, WOKEN)
  clock.advance(SLEEPER.sleepAfterIdleSeconds * 1000)
  for (let round = 0; round < ROUNDS_MAX && (await host.consoles.stored()).length > 0; round += 1)
    await parts().reconciler.idle()
  assert.deepEqual(await host.consoles.stored(), [], 'what slept again kept its place')
  await parts().reconciler.idle()
  assert.deepEqual(statesNow(), new Map([['sleeping', SLEEPERS]]))
  const another = createVm(parts().commands, nameOf(SLEEPERS), requestOf(host, SLEEPERS))
  assert.ok(another.ok, 'one more VM is refused')
})
