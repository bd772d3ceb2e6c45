import assert from 'node:assert/strict'
import { HostFault } from '../../src/core/errors.ts'
import type { Disk } from '../../src/core/desired.ts'
import type { MonitorState } from '../../src/core/world/world.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Monitor } from '../../src/ports/monitor.ts'
import type { MonitorStage } from './monitor-stage.ts'
import { until } from './until.ts'

const id = 'web-1' as VmId
const never = new AbortController().signal

const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code

/** A paused guest that has booted, and the content of its memory. */
async function standing(
  { monitor, start, memory }: MonitorStage,
  reaches: Promises['reaches'],
): Promise<string> {
  await start(id, { paused: false })
  await reaches(monitor, id, 'running')
  const before = await memory(id)
  await monitor.ensurePaused(id, never)
  return before
}

/** Saves a guest that has just begun to run, and ends its monitor. For promises that do not depend on its memory. */
async function savedEarly(
  { monitor, start, end, guest }: MonitorStage,
  reaches: Promises['reaches'],
): Promise<void> {
  await start(id, { paused: false })
  await reaches(monitor, id, 'running')
  await monitor.ensurePaused(id, never)
  await monitor.save(guest(id), never)
  await end(id)
}

type Promises = {
  readonly disk: Disk
  readonly promise: (what: string, body: (stage: MonitorStage) => Promise<void>) => void
  readonly reaches: (monitor: Monitor, vm: VmId, kind: MonitorState['kind']) => Promise<MonitorState>
}

/** Promises of every monitor about a guest that is saved, whatever happens to it afterwards. */
export function savePromises({ disk, promise, reaches }: Promises): void {
  promise('a saved guest can continue in place, and can be saved again', async (stage) => {
    const { monitor, memory, guest } = stage
    const before = await standing(stage, reaches)
    for (const _ of [1, 2]) {
      await monitor.save(guest(id), never)
      await monitor.ensureRunning(id, never)
      assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
      assert.equal(await memory(id), before)
      await monitor.ensurePaused(id, never)
    }
  })

  promise('a guest that was saved and has not run since can be saved if it may run', async (stage) => {
    const { monitor, memory, guest } = stage
    const before = await standing(stage, reaches)
    for (const _ of [1, 2]) {
      await monitor.save({ ...guest(id), mayRun: true }, never)
      assert.deepEqual(await monitor.inspect(id), { kind: 'paused', disk })
    }
    await monitor.ensureRunning(id, never)
    assert.equal(await memory(id), before)
  })

  promise('a running guest is not saved', async ({ monitor, start, guest }) => {
    await start(id, { paused: false })
    await reaches(monitor, id, 'running')
    await assert.rejects(monitor.save(guest(id), never), isFault('save_failed'))
    assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
  })

  promise('an aborted save leaves a paused guest that can continue', async (stage) => {
    const { monitor, memory, guest } = stage
    const before = await standing(stage, reaches)
    const reason = new Error('a packet came')
    const aborting = new AbortController()
    const saving = monitor.save(guest(id), aborting.signal)
    aborting.abort(reason)
    await assert.rejects(saving, reason)
    await assert.rejects(monitor.save(guest(id), AbortSignal.abort(reason)), reason)
    assert.deepEqual(await monitor.inspect(id), { kind: 'paused', disk })
    // The aborted save is over: another one can begin.
    await monitor.save(guest(id), never)
    await monitor.ensureRunning(id, never)
    assert.equal(await memory(id), before)
  })
}

/** Promises of every monitor about a guest that continues from a saved state. */
export function restorePromises({ disk, promise, reaches }: Promises): void {
  promise('a saved guest continues in another process with the memory it had', async (stage) => {
    const { monitor, start, end, guest, memory, saveFile } = stage
    const before = await standing(stage, reaches)
    const saving = await monitor.save(guest(id), never)
    assert.deepEqual(saving, await monitor.installed())
    assert.deepEqual(await monitor.inspect(id), { kind: 'paused', disk })
    await end(id)
    await start(id, { paused: true, restorePath: saveFile(id) })
    await monitor.ensureRestored(guest(id), never)
    await monitor.ensureRestored(guest(id), never)
    assert.deepEqual(await monitor.inspect(id), { kind: 'paused', disk })
    await monitor.ensureRunning(id, never)
    assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
    assert.equal(await memory(id), before)
  })

  promise('a restored guest that has not run sees its disk grow, and can be limited', async (stage) => {
    const { monitor, start, end, guest, memory, saveFile, growFile } = stage
    const before = await standing(stage, reaches)
    await monitor.save(guest(id), never)
    await end(id)
    await start(id, { paused: true, restorePath: saveFile(id) })
    await monitor.ensureRestored(guest(id), never)
    await growFile(id, 128)
    const grown = { sizeMib: 128, iopsMax: 100 }
    await monitor.ensureDiskSize(id, 128, never)
    await monitor.ensureDiskLimits(id, { iopsMax: 100 }, never)
    assert.deepEqual(await monitor.inspect(id), { kind: 'paused', disk: grown })
    await monitor.ensureRunning(id, never)
    assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk: grown })
    assert.equal(await memory(id), before)
  })

  promise('a restored guest ends up paused, however late a caller waits for it', async (stage) => {
    const { monitor, start, guest, saveFile } = stage
    await savedEarly(stage, reaches)
    await start(id, { paused: false, restorePath: saveFile(id) })
    await until(
      () => monitor.inspect(id),
      ({ kind }) => kind !== 'silent',
    )
    await monitor.ensureRestored(guest(id), never)
    await reaches(monitor, id, 'paused')
  })

  for (const how of ['altered', 'cut short', 'emptied'] as const) {
    promise(`a saved guest whose file was ${how} at its head is not restored`, async (stage) => {
      const { monitor, start, guest, saveFile, damage } = stage
      await savedEarly(stage, reaches)
      await damage(saveFile(id), how)
      await start(id, { paused: true, restorePath: saveFile(id) })
      await assert.rejects(monitor.ensureRestored(guest(id), never), isFault('restore_failed'))
      await reaches(monitor, id, 'silent')
    })
  }

  promise('saving and restoring a VM without a monitor are faults', async ({ monitor, guest }) => {
    await assert.rejects(monitor.save(guest(id), never), isFault('monitor_unreachable'))
    await assert.rejects(monitor.ensureRestored(guest(id), never), isFault('restore_failed'))
    monitor.agent.setGuestTime(id)
  })

  promise('a caller can stop waiting for a guest to be restored', async ({ monitor, guest }) => {
    const reason = new Error('the VM is being deleted')
    await assert.rejects(monitor.ensureRestored(guest(id), AbortSignal.abort(reason)), reason)
  })
}

/** Promises of every monitor about when it reads a saved guest. */
export function readPromises({ disk, promise, reaches }: Promises): void {
  promise('a saved guest is read when its monitor starts, or only when it is asked to', async (stage) => {
    const { monitor, start, guest, saveFile, restoresAlone } = stage
    await savedEarly(stage, reaches)
    await start(id, { paused: true, restorePath: saveFile(id) })
    await reaches(monitor, id, restoresAlone ? 'paused' : 'restoring')
    if (restoresAlone) return
    for (const _ of [1, 2, 3]) assert.deepEqual(await monitor.inspect(id), { kind: 'restoring' })
    await monitor.ensureRestored(guest(id), never)
    assert.deepEqual(await monitor.inspect(id), { kind: 'paused', disk })
  })
}
