import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { createVm } from '../src/commands/vm/create-vm.ts'
import { recordingLog } from './recording-log.ts'
import { Store } from '../src/store/store.ts'
import { createRequest } from './command-stage.ts'
import { composed, settingsWith } from './composed.ts'
import { FakeCapacity } from './fakes/fake-capacity.ts'
import { FakeClock } from './fakes/fake-clock.ts'
import { FakeHost } from './fakes/fake-host.ts'
import type { GuestsAtShutdown } from '../src/core/plan/facet.ts'
import type { ExplainContext } from '../src/reconcile/explain-vm.ts'
import type { TaskBetweenPasses } from '../src/reconcile/worker.ts'
import type { TestContext } from 'node:test'
import type { CommandContext } from '../src/commands/context.ts'
import type { Composition, Settings } from '../src/daemon/compose.ts'
import type { CreateVm } from '../src/core/vm/create.ts'
import type { OperationId, Sha256, VmId } from '../src/core/ids.ts'
import type { VmRecord } from '../src/core/vm/record.ts'

const TURNS = 50

/** Time for saves at a shutdown of the host. */
export const SAVES_MS = 90_000

/** Images that the fake host can fetch; others with another `edition`. */
const imagesOn = (host: FakeHost, edition = ''): CreateVm['image']['images'] =>
  (['rootfs', 'kernel'] as const).map((role) => {
    const content = Buffer.from(`${role}${edition}`)
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

/** Runs turns of the event loop, so that everything that does not wait for time can continue. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) await setImmediate()
}

export type StageOptions = {
  readonly snapshots?: Partial<Settings['snapshots']>
  readonly coordination?: Partial<Settings['coordination']>
  readonly flush?: () => Promise<void>
  readonly vmsMax?: number
}

/** Runs a reconciler on a fake host, whose time moves only when the test moves it. */
export async function reconcileStage(
  t: TestContext,
  {
    snapshots = {},
    coordination = {},
    // Turns of the event loop stand for time here, so the disk flushes at once.
    flush = async () => {},
    vmsMax = 10,
  }: StageOptions = {},
) {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-reconcile-'))
  const store = new Store(directory, { first: 600_000, count: vmsMax }, { datasync: flush })
  const clock = new FakeClock()
  const host = new FakeHost(clock, store.storeId)
  const recording = recordingLog()
  const capacity = new FakeCapacity()
  let operations = 0
  const begin = (): Composition =>
    composed({
      store,
      host,
      log: recording.log,
      settings: settingsWith({ snapshots, coordination }),
      newOperationId: () => `op-${(operations += 1)}` as OperationId,
      instead: { capacity },
    })
  let parts = begin()
  /** Context of the current daemon. */
  const context: { -readonly [K in keyof CommandContext]: CommandContext[K] } = parts.commands
  const stop = async (): Promise<void> => {
    parts.drainer.stop()
    await Promise.all([parts.snapshots.stop(), parts.source.stop(), parts.reconciler.stop()])
  }
  t.after(async () => {
    await stop()
    store.close()
    rmSync(directory, { recursive: true })
  })
  await parts.reconciler.start()
  parts.drainer.start()
  const id = 'web-1' as VmId
  const vm = (): VmRecord => onRecord(store, id)
  return {
    ...recording,
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
    /** Creates a VM with its own images and address, whose first image does not come before the function is called. */
    createWithoutImage: (number: number): (() => void) => {
      const release = host.storage.holdNext('ensureImage')
      const images = imagesOn(host, String(number))
      const network = { ipv4Address: `192.0.2.${100 + number}` }
      createVm(context, `web-${number}` as VmId, createRequest({ image: { images }, network }))
      return release
    },
    /** State of the VM, and the code of its fault. */
    shown: () => shownOf(vm()),
    betweenPasses: <T>(as: VmId, task: TaskBetweenPasses<T>) => parts.reconciler.betweenPasses(as, task),
    /** Returns the owner of snapshots, which the test starts. */
    snapshots: () => parts.snapshots,
    /** Returns the source's side of migrations, which the test starts. */
    source: () => parts.source,
    /** Returns what the daemon knows of the length of an image. */
    imageMib: (sha256: Sha256) => parts.inspector.imageMib(sha256),
    /** Resolves when no worker has anything to do before a timer or a poke. */
    idle: () => parts.reconciler.idle(),
    pokeAll: (reason: string) => parts.reconciler.pokeAll(reason),
    /** Returns what a plan for a reader is made from. */
    looker: (): ExplainContext => {
      const { silences, memory, graces, hostEnd } = parts.reconciler
      return { store, host, silences, memory, graces, hostEnd }
    },
    /** Ends the guests as at a shutdown of the host; `signal` ends the wait for guests that were asked to end. */
    endWithHost: (policy: GuestsAtShutdown = 'save', signal = AbortSignal.abort()) =>
      parts.reconciler.endWithHost(policy, { savesMs: SAVES_MS, signal }),
    metrics: () => parts.metrics,
    capacity,
    stop,
    /** Makes another daemon on the same host and state, which has not started to act yet. */
    begin: (): Composition => (parts = begin()),
    /** Starts another daemon on the same host and state. */
    start: async (): Promise<void> => {
      parts = begin()
      Object.assign(context, parts.commands)
      await parts.reconciler.start()
      parts.drainer.start()
    },
    turns,
    /** Lets time pass, and then passes run. */
    later: async (ms: number): Promise<void> => {
      clock.advance(ms)
      await parts.reconciler.idle()
    },
    /** Wakes the worker as a watcher does. */
    noticed: async (): Promise<void> => {
      host.fakeUnits.reconnect()
      await parts.reconciler.idle()
    },
  }
}
