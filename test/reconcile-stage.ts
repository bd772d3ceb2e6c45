import { ANYWHERE } from './fakes/outbound.ts'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { createVm } from '../src/commands/create-vm.ts'
import { recordingLog } from './recording-log.ts'
import { Reconciler } from '../src/reconcile/reconciler.ts'
import { Store } from '../src/store/store.ts'
import { createRequest } from './command-stage.ts'
import { FakeCapacity } from './fakes/fake-capacity.ts'
import { FakeClock } from './fakes/fake-clock.ts'
import { FakeHost } from './fakes/fake-host.ts'
import type { TestContext } from 'node:test'
import type { CommandContext } from '../src/commands/context.ts'
import type { CreateVm } from '../src/core/vm/create.ts'
import type { OperationId, Sha256, VmId } from '../src/core/vm/ids.ts'
import type { VmRecord } from '../src/core/vm/record.ts'

const TURNS = 50

/** Images that the fake host can fetch. */
const imagesOn = (host: FakeHost): CreateVm['image']['images'] =>
  (['rootfs', 'kernel'] as const).map((role) => {
    const content = Buffer.from(role)
    const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
    return { role, sha256, source: host.storage.offer(content) }
  })

const shownOf = ({ observed: { state, fault } }: VmRecord): string =>
  fault === undefined ? state : `${state} ${fault.code}`

function onRecord({ vms }: Store, id: VmId): VmRecord {
  const record = vms.get(id)
  assert.ok(record !== undefined, 'the VM is gone')
  return record
}

/** Turns of the event loop that give anything which does not wait for time the chance to go on. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) await setImmediate()
}

/** A reconciler at work on a fake host, whose time stands still unless the test moves it. */
export async function reconcileStage(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-reconcile-'))
  // A disk that flushes at once: turns of the event loop stand for time here.
  const store = new Store(directory, { first: 600_000, count: 10 }, async () => {})
  const clock = new FakeClock()
  const host = new FakeHost(clock, store.storeId)
  const { log, lines } = recordingLog()
  const begin = (): Reconciler => new Reconciler({ store, host, log })
  let reconciler = begin()
  const alsoStop: (() => Promise<void>)[] = []
  t.after(async () => {
    await Promise.all([reconciler.stop(), ...alsoStop.map((stop) => stop())])
    store.close()
    rmSync(directory, { recursive: true })
  })
  let operations = 0
  const context: CommandContext = {
    store,
    capacity: new FakeCapacity(),
    guestRanges: [],
    outbound: ANYWHERE,
    stagingQuotaMib: () => 1024,
    pokeSnapshot: () => {},
    now: () => clock.now(),
    newOperationId: () => `op-${(operations += 1)}` as OperationId,
    poke: (vm, reason) => reconciler.poke(vm, reason),
  }
  await reconciler.start()
  const id = 'web-1' as VmId
  const vm = (): VmRecord => onRecord(store, id)
  return {
    lines,
    directory,
    store,
    clock,
    host,
    context,
    id,
    vm,
    create: (changes: Partial<CreateVm> = {}, as: VmId = id): void => {
      createVm(context, as, createRequest({ image: { images: imagesOn(host) }, ...changes }))
    },
    /** What is shown of the VM in short: its state, and the code of its fault. */
    shown: () => shownOf(vm()),
    holdStill: <T>(as: VmId, task: (signal: AbortSignal) => Promise<T>) => reconciler.holdStill(as, task),
    /** What else ends together with the reconciler, before the store. */
    alsoStop,
    /** Until no worker has anything to do before a timer or a poke. */
    idle: () => reconciler.idle(),
    pokeAll: (reason: string) => reconciler.pokeAll(reason),
    silences: () => reconciler.silences,
    stop: () => reconciler.stop(),
    /** As another daemon on the same host and state. */
    start: async (): Promise<void> => {
      reconciler = begin()
      await reconciler.start()
    },
    turns,
    /** Passes over, after time went by. */
    later: async (ms: number): Promise<void> => {
      clock.advance(ms)
      await reconciler.idle()
    },
    /** A watcher woke the worker. */
    noticed: async (): Promise<void> => {
      host.fakeUnits.reconnect()
      await reconciler.idle()
    },
  }
}
