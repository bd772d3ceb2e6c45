import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { MonitorState } from '../../src/core/world/world.ts'
import type { DiskLimits } from '../../src/core/desired.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Monitor } from '../../src/ports/monitor.ts'
import { agentPromises, freezePromises } from './monitor-freezes.contract.ts'
import { readPromises, restorePromises, savePromises } from './monitor-saves.contract.ts'
import { until } from './until.ts'
import type { MonitorStage, StartOptions } from './monitor-stage.ts'

export const DISK_MIB = 64
const disk = { sizeMib: DISK_MIB }

/** Allows for a guest that boots under emulation on a busy host and writes late. */
const STALL_MS = 60_000

const id = 'web-1' as VmId
const other = 'web-2' as VmId
const never = new AbortController().signal

const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code

type SetStage = (t: TestContext) => Promise<MonitorStage>
type Options = { readonly skip?: string | false }

const reaches = (monitor: Monitor, vm: VmId, kind: MonitorState['kind']): Promise<MonitorState> =>
  until(
    () => monitor.inspect(vm),
    (state) => state.kind === kind,
  )

/** Starts a guest paused, or pauses it when it runs if the monitor cannot. */
async function startAs({ monitor, start }: MonitorStage, how: StartOptions): Promise<void> {
  const pauses = how.paused && !monitor.capabilities.startPaused
  await start(id, { ...how, paused: how.paused && !pauses })
  await reaches(monitor, id, how.paused && !pauses ? 'paused' : 'running')
  if (pauses) await monitor.ensurePaused(id, never)
}

/** An ability without which a monitor does not make a promise. Its test is then skipped, and says so. */
type Needs = { readonly needs?: 'startPaused' | 'pausesWhenFull' }

const promises =
  (name: string, set: SetStage, options: Options) =>
  (what: string, body: (stage: MonitorStage) => Promise<void>, { needs }: Needs = {}): void => {
    test(`${name}: ${what}`, options, async (t) => {
      const stage = await set(t)
      const { startPaused } = stage.monitor.capabilities
      const abilities = { startPaused, pausesWhenFull: stage.pausesWhenFull }
      if (needs !== undefined && !abilities[needs])
        return t.skip(`this monitor does not have the ability ${needs}`)
      return body(stage)
    })
  }

type Promised = ReturnType<typeof promises>

/**
 * Promises of every monitor about saved guests. Part of {@link monitorContract}; called alone for another form of the
 * file.
 */
export function saveContract(name: string, set: SetStage, options: Options = {}): void {
  const promise = promises(name, set, options)
  savePromises({ disk, promise, reaches })
  restorePromises({ disk, promise, reaches })
  readPromises({ disk, promise, reaches })
}

/** Promises of every monitor; `set` makes a stage and registers its own clean-up. */
export function monitorContract(name: string, set: SetStage, options: Options = {}): void {
  const promise = promises(name, set, options)
  powerPromises(promise)
  changePromises(promise)
  diskPromises(promise)
  fullPoolPromise(promise)
  saveContract(name, set, options)
  agentPromises({ promise, reaches })
  freezePromises({ promise, reaches })
  endPromises(promise)
}

function endPromises(promise: Promised): void {
  promise('a guest with an agent ends when it is asked to, and can be asked again', async (stage) => {
    const { monitor, start, useDisk } = stage
    await start(id, { paused: false })
    await start(other, { paused: false })
    for (const vm of [id, other]) await reaches(monitor, vm, 'running')
    await useDisk(id)
    await monitor.askToEnd(id, never)
    await monitor.askToEnd(id, never).catch((error: unknown) => assert.ok(error instanceof HostFault))
    await reaches(monitor, id, 'silent')
    assert.equal((await monitor.inspect(other)).kind, 'running')
  })

  promise('a VM without a monitor cannot be asked to end', async ({ monitor }) => {
    await assert.rejects(async () => monitor.askToEnd(id, never), isFault('monitor_unreachable'))
  })
}

function powerPromises(promise: Promised): void {
  promise('a VM that was never started is silent', async ({ monitor }) => {
    assert.deepEqual(await monitor.inspect(id), { kind: 'silent' })
  })

  promise('a started guest reaches the running state', async ({ monitor, start }) => {
    await start(id, { paused: false })
    assert.deepEqual(await reaches(monitor, id, 'running'), { kind: 'running', disk })
  })

  promise(
    'a guest that is started paused stays paused until it is resumed',
    async ({ monitor, start }) => {
      await start(id, { paused: true })
      assert.deepEqual(await reaches(monitor, id, 'paused'), { kind: 'paused', disk })
      await monitor.ensureRunning(id, never)
      assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
    },
    { needs: 'startPaused' },
  )

  promise('pausing and resuming can be repeated', async ({ monitor, start }) => {
    await start(id, { paused: false })
    await reaches(monitor, id, 'running')
    await monitor.ensureRunning(id, never)
    assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
    for (let round = 0; round < 2; round++) {
      await monitor.ensurePaused(id, never)
      await monitor.ensurePaused(id, never)
      assert.deepEqual(await monitor.inspect(id), { kind: 'paused', disk })
      await monitor.ensureRunning(id, never)
      await monitor.ensureRunning(id, never)
      assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
    }
  })
}

function changePromises(promise: Promised): void {
  promise('a change applies to one VM and not to its neighbour', async ({ monitor, start }) => {
    await Promise.all([start(id, { paused: false }), start(other, { paused: false })])
    await Promise.all([reaches(monitor, id, 'running'), reaches(monitor, other, 'running')])
    await monitor.ensurePaused(id, never)
    assert.deepEqual(await monitor.inspect(other), { kind: 'running', disk })
  })

  promise('a monitor that ended is silent, and answers again after the next start', async (stage) => {
    const { monitor, start, end } = stage
    await start(id, { paused: false })
    await reaches(monitor, id, 'running')
    await end(id)
    await reaches(monitor, id, 'silent')
    await startAs(stage, { paused: true })
  })

  promise('a change of state and the end of a monitor are reported', async ({ monitor, start, end }) => {
    const reported: VmId[] = []
    monitor.watch((vm) => reported.push(vm))
    await start(id, { paused: false })
    await reaches(monitor, id, 'running')
    for (const change of [() => monitor.ensurePaused(id, never), () => end(id)]) {
      reported.length = 0
      await change()
      await until(
        () => reported,
        (ids) => ids.includes(id),
      )
    }
  })

  promise('changing or counting a VM without a monitor is a fault', async ({ monitor }) => {
    await assert.rejects(monitor.ensureRunning(id, never), isFault('monitor_unreachable'))
    await assert.rejects(monitor.ensurePaused(id, never), isFault('monitor_unreachable'))
    await assert.rejects(monitor.ensureDiskSize(id, 128, never), isFault('monitor_unreachable'))
    await assert.rejects(monitor.ensureDiskLimits(id, {}, never), isFault('monitor_unreachable'))
    await assert.rejects(monitor.diskCounters(id), isFault('monitor_unreachable'))
  })

  promise('an aborted change rejects with the reason and changes nothing', async ({ monitor, start }) => {
    await start(id, { paused: false })
    await reaches(monitor, id, 'running')
    const reason = new Error('the VM is being deleted')
    const aborted = AbortSignal.abort(reason)
    await assert.rejects(monitor.ensurePaused(id, aborted), reason)
    await assert.rejects(monitor.ensureDiskSize(id, 128, aborted), reason)
    await assert.rejects(monitor.ensureDiskLimits(id, { iopsMax: 1 }, aborted), reason)
    assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
  })
}

function diskPromises(promise: Promised): void {
  const shown = async (monitor: Monitor, vm: VmId): Promise<object> => {
    const state = await monitor.inspect(vm)
    assert.ok(state.kind === 'running' || state.kind === 'paused', `the VM is ${state.kind}`)
    return state.disk
  }

  for (const paused of [false, true]) {
    const kind = paused ? 'paused' : 'running'
    const started = (stage: MonitorStage, diskLimits?: DiskLimits): Promise<void> =>
      startAs(stage, { paused, ...(diskLimits === undefined ? {} : { diskLimits }) })

    promise(`a ${kind} guest sees its disk grow when it is notified, and not before`, async (stage) => {
      const { monitor, growFile } = stage
      await started(stage)
      await growFile(id, 128)
      assert.deepEqual(await shown(monitor, id), disk)
      for (const _ of [1, 2]) {
        await monitor.ensureDiskSize(id, 128, never)
        assert.deepEqual(await monitor.inspect(id), { kind, disk: { sizeMib: 128 } })
      }
      await monitor.ensureDiskSize(id, DISK_MIB, never)
      assert.deepEqual(await shown(monitor, id), { sizeMib: 128 })
    })

    promise(`the limits of a ${kind} guest are set, changed and lifted one by one`, async (stage) => {
      const { monitor } = stage
      await started(stage)
      const both = { iopsMax: 100, mibPerSecondMax: 5 }
      for (const diskLimits of [both, both, { iopsMax: 250 }, { mibPerSecondMax: 7 }, {}, {}, both]) {
        await monitor.ensureDiskLimits(id, diskLimits, never)
        assert.deepEqual(await monitor.inspect(id), { kind, disk: { ...disk, ...diskLimits } })
      }
    })

    promise(
      `a ${kind} guest is started under its limits, and keeps them while its disk grows`,
      async (stage) => {
        const { monitor, growFile } = stage
        const diskLimits = { iopsMax: 100, mibPerSecondMax: 5 }
        await started(stage, diskLimits)
        assert.deepEqual(await shown(monitor, id), { ...disk, ...diskLimits })
        await growFile(id, 128)
        await monitor.ensureDiskSize(id, 128, never)
        assert.deepEqual(await shown(monitor, id), { sizeMib: 128, ...diskLimits })
        await monitor.ensureDiskLimits(id, {}, never)
        assert.deepEqual(await shown(monitor, id), { sizeMib: 128 })
      },
    )
  }

  promise('a guest that does nothing has read and written nothing, if it is counted', async (stage) => {
    const { monitor, countsDisk } = stage
    await startAs(stage, { paused: true })
    const nothing = { readBytes: 0, readOperations: 0, writtenBytes: 0, writeOperations: 0 }
    assert.deepEqual(await monitor.diskCounters(id), countsDisk ? nothing : undefined)
  })
}

function fullPoolPromise(promise: Promised): void {
  promise(
    'a guest whose pool is full pauses and lives, until there is room and it is resumed',
    async (stage) => {
      const { monitor, start, fillPool, makeRoom } = stage
      const reported: VmId[] = []
      await start(id, { paused: false, smallPool: true })
      await reaches(monitor, id, 'running')
      monitor.watch((vm) => reported.push(vm))
      await fillPool(id)
      await until(
        () => reported,
        (ids) => ids.includes(id),
        STALL_MS,
      )
      const stalled = await reaches(monitor, id, 'stalled')
      for (const _ of [1, 2]) {
        await assert.rejects(monitor.ensureRunning(id, never), isFault('disk_io_error'))
        assert.deepEqual(await monitor.inspect(id), stalled)
      }
      await monitor.ensurePaused(id, never)
      assert.deepEqual(await monitor.inspect(id), stalled)
      const limited = { iopsMax: 100_000 }
      await monitor.ensureDiskLimits(id, limited, never)
      await makeRoom(id)
      await monitor.ensureRunning(id, never)
      assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk: { ...disk, ...limited } })
    },
    { needs: 'pausesWhenFull' },
  )
}
