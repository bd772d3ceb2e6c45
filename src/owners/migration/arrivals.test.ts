import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { breakArrival, breakRecord, mendRecord } from '../../../test/break-record.ts'
import { commandStage } from '../../../test/command-stage.ts'
import { eventually } from '../../../test/daemon/support/eventually.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeHost } from '../../../test/fakes/fake-host.ts'
import { offered } from '../../../test/offered-vm.ts'
import { recordOf } from '../../../test/record.ts'
import { takeVm } from '../../commands/migration/take-vm.ts'
import { deleteVm } from '../../commands/vm/delete-vm.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { abortable } from '../../lib/abortable.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import { err, ok } from '../../lib/result.ts'
import { StateUnwritable } from '../../store/database/transactions.ts'
import { arrivalsOf } from '../../../test/arrivals-of.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { SourceHost } from '../../ports/source-host.ts'
import type { Store } from '../../store/store.ts'

/** Two VMs that come from a source which does not answer, each with an unfinished disk. */
async function arrivalsStage(t: TestContext) {
  const { directory, context, store, accepted } = commandStage(t)
  const clock = new FakeClock({ nowMs: 1000 })
  const host = new FakeHost(clock, store.storeId)
  const record = recordOf()
  const { network: _none, ...desired } = record.desired
  const take = async (
    id: VmId,
    arrivalId: ArrivalId,
    of: VmRecord = { ...record, desired },
  ): Promise<void> => {
    accepted(takeVm(context, id, { ...offered(id, of), arrivalId }))
    await diskOf(arrivalId)
  }
  const diskOf = async (arrivalId: ArrivalId): Promise<void> =>
    (await host.incomingDisks.open(arrivalId, { number: 1, sizeBytes: 4096 })).close()
  const [first, second] = ['web-1' as VmId, 'web-2' as VmId]
  await take(first, 'a-1' as ArrivalId)
  await take(second, 'a-2' as ArrivalId)
  const arrivals = arrivalsOf(t, { store, host })
  return {
    context,
    directory,
    host,
    arrivals,
    store,
    clock,
    first,
    second,
    record,
    take,
    diskOf,
    disks: () => host.incomingDisks.list(),
    /** Returns the code of what keeps a VM from coming. */
    trouble: (id: VmId) => store.vms.readable(id)?.arrival?.trouble?.code,
  }
}

test('a record that cannot be read ends no start, keeps no other VM from coming, and keeps its disk', async (t) => {
  const { directory, arrivals, first, second, diskOf, disks, trouble } = await arrivalsStage(t)
  await diskOf('a-stray' as ArrivalId)
  breakRecord(directory, first)
  await arrivals.start()
  await eventually(() => trouble(second) === 'source_unreachable')
  assert.deepEqual(await disks(), ['a-1', 'a-2'])
})

test('a record that does not say by which attempt its VM comes keeps all unfinished disks', async (t) => {
  const { directory, arrivals, first, second, disks, trouble } = await arrivalsStage(t)
  breakArrival(directory, first)
  await arrivals.start()
  await eventually(() => trouble(second) === 'source_unreachable')
  assert.deepEqual(await disks(), ['a-1', 'a-2'])
})

test('a record that cannot be read any more keeps its disk, and its course continues when it can', async (t) => {
  const { directory, arrivals, store, clock, first, second, disks, trouble } = await arrivalsStage(t)
  await arrivals.start()
  await eventually(() => trouble(first) !== undefined && trouble(second) !== undefined)
  breakRecord(directory, first)
  store.vms.setGuestSeen(first, {}, 2000)
  clock.advance(limits.retryBackoffMsMax)
  await turn()
  assert.deepEqual(await disks(), ['a-1', 'a-2'])
  mendRecord(directory, first)
  const arrival = store.vms.get(first)?.arrival ?? assert.fail('it does not come')
  const { trouble: _past, ...rest } = arrival
  store.arrivals.set(first, rest, 3000)
  await eventually(() => {
    clock.advance(limits.retryBackoffMsMax)
    return trouble(first) === 'source_unreachable'
  })
})

test('a guest that is down for the handover is copied at once, also while others have all places', async (t) => {
  const { host, arrivals, store, take } = await arrivalsStage(t)
  const asked: string[] = []
  const silent = (origin: string): SourceHost =>
    ({
      manifest: (_id: unknown, signal: AbortSignal) => {
        asked.push(origin)
        return abortable(new Promise(() => {}), signal)
      },
    }) as unknown as SourceHost
  t.mock.method(host.sourceHosts, 'at', silent)
  const id = 'web-3' as VmId
  await take(id, 'a-3' as ArrivalId)
  const arrival = store.vms.get(id)?.arrival ?? assert.fail('it does not come')
  store.arrivals.set(id, { ...arrival, source: 'https://still:9001', expectsGuest: true }, 1000)
  await arrivals.start()
  await eventually(() => asked.length > limits.arrivalsAtOnceMax)
  assert.ok(asked.includes('https://still:9001'))
})

test('a VM that is taken while unfinished disks are listed keeps its disk', async (t) => {
  const { host, arrivals, take, diskOf, disks } = await arrivalsStage(t)
  await diskOf('a-stray' as ArrivalId)
  const list = host.incomingDisks.list.bind(host.incomingDisks)
  t.mock.method(host.incomingDisks, 'list', async () => {
    await take('web-3' as VmId, 'a-3' as ArrivalId)
    return list()
  })
  await arrivals.start()
  t.mock.restoreAll()
  assert.deepEqual(await disks(), ['a-1', 'a-2', 'a-3'])
})

/** Lets no write of a course reach the records; returns the function that ends this. */
function unwritable(t: TestContext, store: Store): () => void {
  const fail = (): never => {
    throw new StateUnwritable(new Error('the disk is full'))
  }
  const mocks = [t.mock.method(store, 'transaction', fail), t.mock.method(store.arrivals, 'set', fail)]
  return () => mocks.forEach(({ mock }) => mock.restore())
}

test('a course whose records cannot be written tries again after the usual delay', async (t) => {
  const { host, arrivals, store, clock } = await arrivalsStage(t)
  let asked = 0
  const manifest = async (): Promise<never> => {
    asked += 1
    throw new HostFault('source_unreachable', 'asking the source')
  }
  t.mock.method(host.sourceHosts, 'at', () => ({ manifest }) as unknown as SourceHost)
  unwritable(t, store)
  await arrivals.start()
  await eventually(() => asked === 2)
  await turn()
  clock.advance(limits.retryBackoffMsMin)
  await eventually(() => asked === 4)
})

test('a refusal that cannot be written is asked for again after the usual delay', async (t) => {
  const { host, arrivals, store, clock, first, second } = await arrivalsStage(t)
  let asked = 0
  const manifest = async () => {
    asked += 1
    return err('withdrawn')
  }
  t.mock.method(host.sourceHosts, 'at', () => ({ manifest }) as unknown as SourceHost)
  const writable = unwritable(t, store)
  await arrivals.start()
  await eventually(() => asked === 2)
  await turn()
  writable()
  clock.advance(limits.retryBackoffMsMin)
  const stages = () => [first, second].map((id) => store.vms.get(id)?.arrival?.stage)
  await eventually(() => stages().every((stage) => stage === 'refused'))
})

test('a VM that is deleted here is given back at the newest address of its source', async (t) => {
  const { context, host, arrivals, store, first, second } = await arrivalsStage(t)
  const asked: string[] = []
  const givenBack: string[] = []
  const silent = (origin: string): SourceHost =>
    ({
      manifest: (_id: unknown, signal: AbortSignal) => {
        asked.push(origin)
        return abortable(new Promise(() => {}), signal)
      },
      abort: async () => {
        givenBack.push(origin)
        return ok(undefined)
      },
    }) as unknown as SourceHost
  t.mock.method(host.sourceHosts, 'at', silent)
  await arrivals.start()
  await eventually(() => asked.length === 2)
  const arrival = store.vms.get(first)?.arrival ?? assert.fail('it does not come')
  store.arrivals.set(first, { ...arrival, source: 'https://newest:9001' }, 1000)
  await turn()
  for (const id of [first, second]) assert.ok(deleteVm(context, id).ok)
  await eventually(() => givenBack.length === 2)
  assert.deepEqual(givenBack, ['https://newest:9001', arrival.source])
})

test('a VM that is deleted here is given back at once, and its disk is removed when that is possible', async (t) => {
  const { context, host, arrivals, clock, first, disks } = await arrivalsStage(t)
  const givenBack: string[] = []
  const abort: SourceHost['abort'] = async ({ arrival }) => {
    givenBack.push(arrival)
    return ok(undefined)
  }
  const manifest: SourceHost['manifest'] = (_id, signal) => abortable(new Promise<never>(() => {}), signal)
  t.mock.method(host.sourceHosts, 'at', () => ({ abort, manifest }) as SourceHost)
  await arrivals.start()
  host.incomingDisks.failNext('remove', new HostFault('storage_failed', 'removing'))
  assert.ok(deleteVm(context, first).ok)
  await eventually(() => givenBack.length === 1)
  await turn()
  assert.deepEqual([givenBack, await disks()], [['a-1'], ['a-1', 'a-2']])
  host.incomingDisks.failNext('remove', new HostFault('storage_failed', 'removing'))
  clock.advance(limits.roundsRetryMs)
  await turn()
  assert.deepEqual(await disks(), ['a-1', 'a-2'])
  clock.advance(limits.roundsRetryMs)
  await turn()
  assert.deepEqual(await disks(), ['a-2'])
})

test('the disk of a VM that was deleted is left to the next daemon when this one stops', async (t) => {
  const { context, host, arrivals, clock, first, disks } = await arrivalsStage(t)
  await arrivals.start()
  host.incomingDisks.failNext('remove', new HostFault('storage_failed', 'removing'))
  assert.ok(deleteVm(context, first).ok)
  await turn()
  await arrivals.stop()
  clock.advance(limits.roundsRetryMs)
  await turn()
  assert.deepEqual(await disks(), ['a-1', 'a-2'])
})

test('a VM that is taken under the id of another, whose guest is still being given back, comes after that', async (t) => {
  const { context, host, arrivals, store, first, take } = await arrivalsStage(t)
  let asked = 0
  const given = Promise.withResolvers<void>()
  const source: Partial<SourceHost> = {
    manifest: (_id, signal) => {
      asked += 1
      return abortable(new Promise<never>(() => {}), signal)
    },
    abort: async () => {
      await given.promise
      return ok(undefined)
    },
  }
  t.mock.method(host.sourceHosts, 'at', () => source)
  await arrivals.start()
  await eventually(() => asked === 2)
  assert.ok(deleteVm(context, first).ok)
  store.vms.forget(first, 2000)
  await take(first, 'a-3' as ArrivalId)
  await turn()
  assert.equal(asked, 2)
  given.resolve()
  await eventually(() => asked === 3)
})

/** A VM that was released to this host. Its source has a packet whenever it is asked, or never answers. */
async function releasedStage(t: TestContext, releasedAtMs: number, { hasPackets } = { hasPackets: true }) {
  const { host, arrivals, store, clock, record, take } = await arrivalsStage(t)
  const id = 'web-3' as VmId
  await take(id, 'a-3' as ArrivalId, record)
  const arrival = store.vms.get(id)?.arrival ?? assert.fail('it does not come')
  store.arrivals.set(id, { ...arrival, stage: 'released', releasedAtMs }, 1000)
  const packet = { gsoSize: 0, ageMs: 0, counts: false, frame: Buffer.alloc(60) }
  let asked = 0
  const heldPackets: SourceHost['heldPackets'] = async (_move, _from, signal) => {
    await turn()
    asked += 1
    if (!hasPackets) return abortable(new Promise<never>(() => {}), signal)
    // The course must not ask earlier because its record has changed.
    store.vms.setGuestSeen(id, {}, 1000 + asked)
    return ok([{ ...packet, number: asked }])
  }
  t.mock.method(host.sourceHosts, 'at', () => ({ heldPackets }) as unknown as SourceHost)
  t.mock.method(host.traffic, 'inject', async () => {})
  await arrivals.start()
  const askedNow = async (): Promise<number> => {
    for (let time = 0; time < 5; time += 1) await turn()
    return asked
  }
  return { arrivals, clock, asked: () => asked, askedNow }
}

test('a source that always has more packets is asked for them only now and then', async (t) => {
  const { clock, asked, askedNow } = await releasedStage(t, 1000)
  for (let count = 1; count <= 3; count += 1) {
    await eventually(() => asked() >= count)
    assert.equal(await askedNow(), count)
    clock.advance(limits.packetsEveryMs)
  }
})

test('a source is asked for late packets for a minute, also if the clock was ahead at the release', async (t) => {
  const { clock, asked, askedNow } = await releasedStage(t, 1000 + 365 * DAY_MS)
  await eventually(() => asked() === 1)
  clock.advance(limits.departedFramesMs - limits.packetsEveryMs)
  assert.equal(await askedNow(), 2)
  clock.advance(limits.packetsEveryMs)
  assert.equal(await askedNow(), 2)
})

test('a daemon that stops while it asks for late packets says nothing of it', async (t) => {
  const { arrivals, asked } = await releasedStage(t, 1000, { hasPackets: false })
  await eventually(() => asked() === 1)
  await arrivals.stop()
  const warned = arrivals.lines.filter(({ level }) => level === 'warn' || level === 'error')
  assert.deepEqual(
    warned.filter(({ vm_id }) => vm_id === 'web-3'),
    [],
  )
})

for (const [what, boundMs, isAsked] of [
  ['a copy', limits.offerMsMax, 'ensureRound'],
  ['a handover', limits.takeOverMsMax, 'handOver'],
] as const) {
  test(`${what} that its source never finishes ends, and gives its place to another VM`, async (t) => {
    const { host, arrivals, store, clock, first, trouble, take } = await arrivalsStage(t)
    await take('web-3' as VmId, 'a-3' as ArrivalId)
    const { manifest } = offered(first, store.vms.get(first) ?? assert.fail('it does not come'))
    const { disk } = await host.storage.inspect(first, [])
    t.mock.method(host.storage, 'inspect', async () => ({ disk, missingImages: [] }))
    const asked: string[] = []
    let dripping = 0
    const drips = (_move: unknown, ...rest: readonly unknown[]): Promise<never> => {
      dripping += 1
      return abortable(new Promise<never>(() => {}), rest.at(-1) as AbortSignal)
    }
    const source = {
      manifest: async (id: MigrationId) => {
        asked.push(id)
        return ok({ ...manifest, power: 'stopped' as const })
      },
      ensureRound: async () => ok({ sizeBytes: 4096, changedBytes: 0 }),
      roundFrames: async () => ok((async function* () {})()),
      handOver: drips,
      [isAsked]: drips,
    } as unknown as SourceHost
    t.mock.method(host.sourceHosts, 'at', () => source)
    await arrivals.start()
    await eventually(() => dripping === 2)
    assert.equal(asked.length, 2)
    clock.advance(boundMs)
    await eventually(() => trouble(first) === 'source_unreachable')
    await eventually(() => asked.length === 3)
  })
}

test('a host that is drained during a handover gives the guest back at once', async (t) => {
  const { host, arrivals, store, first } = await arrivalsStage(t)
  const { manifest } = offered(first, store.vms.get(first) ?? assert.fail('it does not come'))
  const { disk } = await host.storage.inspect(first, [])
  t.mock.method(host.storage, 'inspect', async () => ({ disk, missingImages: [] }))
  const [handingOver, givenBack] = [new Set<string>(), new Set<string>()]
  const source: Partial<SourceHost> = {
    manifest: async () => ok({ ...manifest, stage: 'handed_over' }),
    handOver: ({ arrival }, signal) => {
      handingOver.add(arrival)
      return abortable(new Promise<never>(() => {}), signal)
    },
    abort: async ({ arrival }) => {
      givenBack.add(arrival)
      return ok(undefined)
    },
  }
  t.mock.method(host.sourceHosts, 'at', () => source)
  await arrivals.start()
  await eventually(() => handingOver.size === 2)
  store.maintenance.set({ state: 'cordoned', sinceMs: 2000 }, 2000)
  arrivals.pokeHost()
  await turn()
  assert.equal(givenBack.size, 0)
  store.maintenance.set({ state: 'drained', sinceMs: 3000 }, 3000)
  arrivals.pokeHost()
  await eventually(() => store.vms.get(first)?.arrival?.because === 'drained')
  await eventually(() => givenBack.size === 2)
})
