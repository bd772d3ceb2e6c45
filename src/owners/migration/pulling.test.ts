import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { commandStage } from '../../../test/command-stage.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeHost } from '../../../test/fakes/fake-host.ts'
import { offered } from '../../../test/offered-vm.ts'
import { recordOf } from '../../../test/record.ts'
import { takeVm } from '../../commands/migration/take-vm.ts'
import { limits } from '../../config/limits.ts'
import { StreamRefused } from '../../core/migration/stream-refused.ts'
import { MONITOR_KINDS } from '../../core/monitor/monitor-kind.ts'
import { MIB } from '../../lib/byte-units.ts'
import { err, ok } from '../../lib/result.ts'
import { FairPlaces } from '../../lib/fair-places.ts'
import { silentLog } from '../../log/log.ts'
import { StateUnwritable } from '../../store/database/transactions.ts'
import { pullRounds, takeOver } from './pull-disk.ts'
import { pullGuest } from './pull-guest.ts'
import { Pulling } from './pulling.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { Frame } from '../../core/migration/frames.ts'
import type { MonitorKind } from '../../core/monitor/monitor-kind.ts'
import type { MovedMemory } from '../../core/world/saved-state.ts'
import type { SourceHost } from '../../ports/source-host.ts'

const UNREACHABLE = { code: 'source_unreachable', retry: 'backoff', message: 'asking the source' } as const

/** A VM that was taken from a source of which the test gives the answers. */
function pullStage(t: TestContext, source: Partial<SourceHost>, monitor: MonitorKind = 'qemu') {
  const { context, id, store, accepted } = commandStage(t)
  const request = offered(id, recordOf({ monitor }))
  accepted(takeVm(context, id, request))
  const record = store.vms.get(id) ?? assert.fail('it was not taken')
  const clock = new FakeClock({ nowMs: 1000 })
  const host = new FakeHost(clock, store.storeId)
  const pokes: string[] = []
  const arrivals = {
    store,
    host: Object.assign(host, { sourceHosts: { at: () => source as SourceHost } }),
    poke: (_id: VmId, reason: string) => void pokes.push(reason),
    betweenPasses: async () => undefined,
    places: new FairPlaces(1),
    log: silentLog,
  }
  return {
    record,
    host,
    store,
    clock,
    pokes,
    arrival: () => store.vms.get(id)?.arrival ?? assert.fail('it does not come'),
    inTrouble: (arrival: Arrival) => store.arrivals.set(id, { ...arrival, trouble: UNREACHABLE }, 1000),
    manifest: request.manifest,
    pulling: new Pulling(arrivals, record, new AbortController().signal),
  }
}

test('a source whose disk is larger than what was admitted gets no room for it', async (t) => {
  const asked: string[] = []
  const { pulling, record, manifest } = pullStage(t, {
    ensureRound: async () => ok({ sizeBytes: record.desired.disk.sizeMib * MIB + 1, changedBytes: 0 }),
    roundFrames: async () => {
      asked.push('frames')
      return ok((async function* () {})())
    },
  })
  await assert.rejects(pullRounds(pulling, manifest), { name: 'Hindered', code: 'source_refused' })
  assert.deepEqual(asked, [])
})

test('frames are asked for only when there is a file for them, because only a reader closes them', async (t) => {
  const asked: string[] = []
  const { host, pulling, record, manifest } = pullStage(t, {
    ensureRound: async () => ok({ sizeBytes: record.desired.disk.sizeMib * MIB, changedBytes: 0 }),
    roundFrames: async () => {
      asked.push('disk')
      return err('unknown')
    },
    memoryFrames: async () => {
      asked.push('memory')
      return err('unknown')
    },
  })
  const full = new Error('the pool is full')
  t.mock.method(host.incomingDisks, 'open', () => Promise.reject(full))
  t.mock.method(host.savedStates, 'openIncoming', () => Promise.reject(full))
  t.mock.method(host.incomingDisks, 'publish', async () => {})
  const terms = { savedAtMs: 1 } as MovedMemory['terms']
  const memory = { lengthBytes: MIB, terms }
  await assert.rejects(pullRounds(pulling, manifest), full)
  await assert.rejects(pullGuest(pulling, { manifest, memory, console: undefined }), full)
  assert.deepEqual(asked, [])
})

for (const monitor of MONITOR_KINDS)
  test(`a source with more memory than a guest of ${monitor} can have gets no room for it`, async (t) => {
    const asked: number[] = []
    const { host, pulling, record, manifest } = pullStage(
      t,
      {
        memoryFrames: async (_move, lengthBytes) => {
          asked.push(lengthBytes)
          return err('unknown')
        },
      },
      monitor,
    )
    t.mock.method(host.incomingDisks, 'publish', async () => {})
    const pull = (lengthBytes: number) =>
      pullGuest(pulling, {
        manifest,
        memory: { lengthBytes, terms: { savedAtMs: 1 } as MovedMemory['terms'] },
        console: undefined,
      })
    const { memoryMib } = record.desired.compute
    const mostBytes = (memoryMib + limits.savedDevicesMib + 1) * MIB
    await assert.rejects(pull(mostBytes + 1), { name: 'Hindered', code: 'source_refused' })
    assert.deepEqual(asked, [])
    await assert.rejects(pull(mostBytes), { name: 'SourceRefused' })
    assert.deepEqual(asked, [mostBytes])
  })

test('a source that withdraws the VM within a stream has refused it, and is not asked again', async (t) => {
  async function* withdrawn(): AsyncGenerator<Frame> {
    yield { kind: 'hole', offset: 0, length: 4096 }
    throw new StreamRefused('withdrawn', 4096)
  }
  const { host, pulling, record, manifest } = pullStage(t, {
    ensureRound: async () => ok({ sizeBytes: record.desired.disk.sizeMib * MIB, changedBytes: 8192 }),
    roundFrames: async () => ok(withdrawn()),
    memoryFrames: async () => ok(withdrawn()),
  })
  t.mock.method(host.incomingDisks, 'publish', async () => {})
  const refused = { name: 'SourceRefused', because: 'withdrawn' }
  await assert.rejects(pullRounds(pulling, manifest), { ...refused, request: 'copy' })
  const memory = { lengthBytes: MIB, terms: { savedAtMs: 1 } as MovedMemory['terms'] }
  const pull = pullGuest(pulling, { manifest, memory, console: undefined })
  await assert.rejects(pull, { ...refused, request: 'hand_over' })
})

test('trouble is over as soon as frames arrive, and the error that is shown ends with it', (t) => {
  const { pulling, pokes, arrival, inTrouble } = pullStage(t, {})
  const progress = { round: 1, copiedBytes: 4096, totalBytes: 8192 }
  inTrouble(arrival())
  pulling.show(progress)
  assert.deepEqual([arrival().trouble, arrival().progress], [undefined, progress])
  assert.deepEqual(pokes, ['arrival goes on'])
  pulling.show({ ...progress, copiedBytes: 8192 })
  assert.equal(pokes.length, 1, 'no pass is needed while it goes well')
  inTrouble(arrival())
  pulling.advance({ kind: 'round_pulled', round: 1 })
  assert.equal(arrival().trouble, undefined)
  assert.equal(pokes.length, 2)
})

test('bytes that arrive do not end trouble of the pool of this host, so nothing flaps until there is room', (t) => {
  const { pulling, pokes, store, arrival } = pullStage(t, {})
  const trouble = { code: 'storage_full', retry: 'backoff', message: 'writing' } as const
  store.arrivals.set(pulling.id, { ...arrival(), trouble }, 1000)
  pulling.show({ round: 1, copiedBytes: 4096, totalBytes: 8192 })
  assert.deepEqual([arrival().trouble, arrival().progress?.copiedBytes], [trouble, 4096])
  assert.deepEqual(pokes, [])
  pulling.advance({ kind: 'round_pulled', round: 1 })
  assert.equal(arrival().trouble, undefined)
  assert.deepEqual(pokes, ['arrival goes on'])
})

test('a round is copied as a whole although its progress cannot be written', async (t) => {
  const { clock, store, pulling, record, manifest, arrival } = pullStage(t, {
    ensureRound: async () => ok({ sizeBytes: record.desired.disk.sizeMib * MIB, changedBytes: 8192 }),
    roundFrames: async () => ok(slowFrames()),
  })
  async function* slowFrames(): AsyncGenerator<Frame> {
    for (const offset of [0, 4096]) {
      clock.advance(limits.copyProgressMs)
      yield { kind: 'hole', offset, length: 4096 }
    }
  }
  const writes = t.mock.method(store, 'transaction')
  const fail = (): never => {
    throw new StateUnwritable(new Error('the disk is full'))
  }
  for (const write of [0, 1]) writes.mock.mockImplementationOnce(fail, write)
  await pullRounds(pulling, { ...manifest, power: 'stopped' })
  assert.deepEqual([writes.mock.callCount(), arrival().round], [3, 1])
})

test('a source that says at once that the guest is being handed over is asked again only after a while', async (t) => {
  let asked = 0
  const { clock, pulling, manifest } = pullStage(t, {
    handOver: async () => {
      asked += 1
      return asked < 3 ? ok({ stage: 'handing_over' }) : err('withdrawn')
    },
  })
  const taken = assert.rejects(takeOver(pulling, manifest), { name: 'SourceRefused' })
  for (let count = 1; count <= 3; count += 1) {
    await turn()
    assert.equal(asked, count)
    clock.advance(limits.handoverLookMs)
  }
  await taken
})
