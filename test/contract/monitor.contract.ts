import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { MonitorState } from '../../src/core/plan/world.ts'
import type { VmId } from '../../src/core/vm/ids.ts'
import type { Monitor } from '../../src/ports/monitor.ts'
import { until } from './until.ts'

/** A monitor under test, and the part of the init system that it needs. */
export type MonitorStage = {
  readonly monitor: Monitor
  /** Executes the monitor's program for a VM, as its unit would. */
  readonly start: (id: VmId, how: { readonly paused: boolean }) => Promise<void> | void
  /** Ends that process the hard way. */
  readonly end: (id: VmId) => Promise<void> | void
}

const id = 'web-1' as VmId
const other = 'web-2' as VmId
const never = new AbortController().signal

const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code

/** What every monitor promises; `set` makes a stage and registers its own cleaning up. */
export function monitorContract(
  name: string,
  set: (t: TestContext) => Promise<MonitorStage>,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (stage: MonitorStage) => Promise<void>): void => {
    test(`${name}: ${what}`, options, async (t) => body(await set(t)))
  }
  const reaches = (monitor: Monitor, vm: VmId, kind: MonitorState['kind']): Promise<MonitorState> =>
    until(
      () => monitor.inspect(vm),
      (state) => state.kind === kind,
    )

  promise('a VM that was never started is silent', async ({ monitor }) => {
    assert.deepEqual(await monitor.inspect(id), { kind: 'silent' })
  })

  promise('a started guest comes to run', async ({ monitor, start }) => {
    await start(id, { paused: false })
    assert.deepEqual(await reaches(monitor, id, 'running'), { kind: 'running' })
  })

  promise('a guest that is started paused stands still until it is let go', async ({ monitor, start }) => {
    await start(id, { paused: true })
    assert.deepEqual(await reaches(monitor, id, 'paused'), { kind: 'paused' })
    await monitor.ensureRunning(id, never)
    assert.deepEqual(await monitor.inspect(id), { kind: 'running' })
  })

  promise('pausing and resuming can be repeated', async ({ monitor, start }) => {
    await start(id, { paused: false })
    await reaches(monitor, id, 'running')
    await monitor.ensureRunning(id, never)
    assert.deepEqual(await monitor.inspect(id), { kind: 'running' })
    for (let round = 0; round < 2; round++) {
      await monitor.ensurePaused(id, never)
      await monitor.ensurePaused(id, never)
      assert.deepEqual(await monitor.inspect(id), { kind: 'paused' })
      await monitor.ensureRunning(id, never)
      await monitor.ensureRunning(id, never)
      assert.deepEqual(await monitor.inspect(id), { kind: 'running' })
    }
  })

  promise('one VM is changed and not its neighbour', async ({ monitor, start }) => {
    await Promise.all([start(id, { paused: false }), start(other, { paused: false })])
    await Promise.all([reaches(monitor, id, 'running'), reaches(monitor, other, 'running')])
    await monitor.ensurePaused(id, never)
    assert.deepEqual(await monitor.inspect(other), { kind: 'running' })
  })

  promise('a monitor that ended is silent, and answers again when it was started again', async (stage) => {
    const { monitor, start, end } = stage
    await start(id, { paused: false })
    await reaches(monitor, id, 'running')
    await end(id)
    await reaches(monitor, id, 'silent')
    await start(id, { paused: true })
    await reaches(monitor, id, 'paused')
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

  promise('changing a VM without a monitor is a fault', async ({ monitor }) => {
    await assert.rejects(monitor.ensureRunning(id, never), isFault('monitor_unreachable'))
    await assert.rejects(monitor.ensurePaused(id, never), isFault('monitor_unreachable'))
  })

  promise('an aborted change rejects with the reason and changes nothing', async ({ monitor, start }) => {
    await start(id, { paused: false })
    await reaches(monitor, id, 'running')
    const reason = new Error('the VM is being deleted')
    await assert.rejects(monitor.ensurePaused(id, AbortSignal.abort(reason)), reason)
    assert.deepEqual(await monitor.inspect(id), { kind: 'running' })
  })
}
