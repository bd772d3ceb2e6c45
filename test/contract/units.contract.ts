import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { UnitState } from '../../src/core/world/world.ts'
import type { UnitSpec } from '../../src/core/unit/unit-spec.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Units } from '../../src/ports/units.ts'
import { until } from './until.ts'

/** Units under test, and programs for them to run. */
export type UnitsStage = {
  readonly units: Units
  /** A unit whose program runs until it is asked to exit. */
  readonly spec: (id: VmId) => Promise<UnitSpec> | UnitSpec
  /** A unit with a program that is not installed. */
  missing(spec: UnitSpec): UnitSpec
  /** Lets the program of a running unit end by itself. */
  exit(id: VmId, status: number): Promise<void> | void
  /** Leaves a process in the control group of a unit that is gone or failed; resolves to how it appears there. */
  readonly leave: (id: VmId) => Promise<number> | number
  /** Whether such a process is alive. */
  readonly lives: (pid: number) => boolean
}

export const web = 'web-1' as VmId
export const other = 'web-2' as VmId
const never = new AbortController().signal

const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code

/** Waits until a unit is in a state; resolves with the state. */
const reached = (units: Units, id: VmId, kind: UnitState['kind']): Promise<UnitState> =>
  until(
    () => units.inspect(id),
    (state) => state.kind === kind,
  )

/** Promises of every implementation of units; `set` makes a stage and registers its own clean-up. */
export function unitsContract(
  name: string,
  set: (t: TestContext) => Promise<UnitsStage> | UnitsStage,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (stage: UnitsStage) => Promise<void>): void => {
    test(`${name}: ${what}`, { skip: options.skip ?? false }, async (t) => body(await set(t)))
  }
  const start = async ({ units, spec }: UnitsStage, id: VmId): Promise<UnitState> => {
    await units.ensureStarted(id, await spec(id), never)
    return units.inspect(id)
  }

  promise('a unit that was never started is absent', async ({ units }) => {
    assert.deepEqual(await units.inspect(web), { kind: 'absent' })
    assert.deepEqual(await units.list(), [])
    assert.deepEqual(await units.active(), [])
  })

  promise('a start that was announced and does not come leaves nothing', async ({ units }) => {
    units.expectStart()
    units.expectStart()
    assert.deepEqual(await units.inspect(web), { kind: 'absent' })
    assert.deepEqual(await units.list(), [])
  })

  promise('a started unit is active and listed with its store', async (stage) => {
    const state = await start(stage, web)
    assert.equal(state.kind, 'active')
    assert.ok(state.mainPid > 0 && state.startedAtMs > Date.parse('2020-01-01T00:00:00Z'))
    assert.deepEqual(await stage.units.list(), [{ id: web, state, storeId: 'test-store' }])
    assert.deepEqual(await stage.units.list(new Set([web])), [])
    assert.deepEqual(await stage.units.active(), [web])
  })

  promise('the memory of a unit is known while it runs', async (stage) => {
    const { units } = stage
    assert.deepEqual([...(await units.resident([web]))], [])
    await start(stage, web)
    const measured = await units.resident([web, other])
    assert.deepEqual([...measured.keys()], [web])
    assert.ok((measured.get(web)?.anonymousBytes ?? 0) > 0)
    await units.ensureStopped(web, never)
    assert.deepEqual([...(await units.resident([web]))], [])
  })

  promise('the CPU time of a unit is known while it runs', async (stage) => {
    const { units } = stage
    assert.deepEqual([...(await units.cpuTime([web]))], [])
    await start(stage, web)
    const read = await units.cpuTime([web, other])
    assert.deepEqual([...read.keys()], [web])
    assert.ok((read.get(web) ?? 0) > 0)
    await units.ensureStopped(web, never)
    assert.deepEqual([...(await units.cpuTime([web]))], [])
  })

  promise('a start can be repeated and then does nothing', async (stage) => {
    const first = await start(stage, web)
    assert.deepEqual(await start(stage, web), first)
  })

  promise('units of several VMs start at the same time and stop one by one', async (stage) => {
    await Promise.all([start(stage, web), start(stage, other)])
    await stage.units.ensureStopped(web, never)
    assert.equal((await stage.units.inspect(web)).kind, 'absent')
    assert.equal((await stage.units.inspect(other)).kind, 'active')
    assert.deepEqual(
      (await stage.units.list()).map(({ id }) => id),
      [other],
    )
  })

  promise('a stopped unit leaves nothing; a stop can be repeated, and needs no unit', async (stage) => {
    await stage.units.ensureStopped(web, never)
    await start(stage, web)
    await stage.units.ensureStopped(web, never)
    await stage.units.ensureStopped(web, never)
    assert.deepEqual(await stage.units.inspect(web), { kind: 'absent' })
    assert.deepEqual(await stage.units.list(), [])
  })

  promise('a stopped unit can be started again', async (stage) => {
    const first = await start(stage, web)
    await stage.units.ensureStopped(web, never)
    const second = await start(stage, web)
    assert.equal(second.kind, 'active')
    assert.notDeepEqual(second, first)
  })

  promise(
    'a program that is not installed fails the start with that fault, and the unit stays failed',
    async (stage) => {
      const spec = stage.missing(await stage.spec(web))
      await assert.rejects(stage.units.ensureStarted(web, spec, never), isFault('monitor_missing'))
      assert.deepEqual(await stage.units.inspect(web), { kind: 'failed', result: 'exit-code', status: 203 })
      await stage.units.ensureStopped(web, never)
      assert.deepEqual(await stage.units.inspect(web), { kind: 'absent' })
    },
  )

  promise('a unit whose program fails shows how it failed, until it is stopped', async (stage) => {
    await start(stage, web)
    await stage.exit(web, 3)
    const failed = { kind: 'failed', result: 'exit-code', status: 3 } as const
    assert.deepEqual(await reached(stage.units, web, 'failed'), failed)
    assert.deepEqual(await stage.units.list(), [{ id: web, state: failed, storeId: 'test-store' }])
    assert.deepEqual(await stage.units.active(), [])
    await stage.units.ensureStopped(web, never)
    assert.deepEqual(await stage.units.inspect(web), { kind: 'absent' })
  })

  promise('a failed unit does not prevent a start', async (stage) => {
    await start(stage, web)
    await stage.exit(web, 3)
    await reached(stage.units, web, 'failed')
    assert.equal((await start(stage, web)).kind, 'active')
  })

  promise('a program that exits cleanly leaves no unit', async (stage) => {
    await start(stage, web)
    await stage.exit(web, 0)
    await reached(stage.units, web, 'absent')
    assert.deepEqual(await stage.units.list(), [])
  })

  promise('a process left over from an unknown unit is reported, and is ended by a stop', async (stage) => {
    const { units, leave, lives } = stage
    const pid = await leave(web)
    assert.deepEqual(await units.inspect(web), { kind: 'leftover', pids: [pid] })
    assert.deepEqual(await units.inspect(other), { kind: 'absent' })
    const listed = { id: web, state: { kind: 'leftover', pids: [pid] }, storeId: undefined }
    assert.deepEqual(await units.list(), [listed])
    assert.deepEqual(await units.list(new Set([web])), [])
    await units.ensureStopped(web, never)
    assert.ok(!lives(pid))
    assert.deepEqual(await units.inspect(web), { kind: 'absent' })
    assert.deepEqual(await units.list(), [])
  })

  promise('processes left over from a failed unit are reported, and are ended by a stop', async (stage) => {
    const { units, leave, lives } = stage
    await start(stage, web)
    await stage.exit(web, 3)
    await reached(units, web, 'failed')
    const pids = [await leave(web), await leave(web)].toSorted((a, b) => a - b)
    const state = await units.inspect(web)
    assert.ok(state.kind === 'leftover', `the unit is ${state.kind}`)
    assert.deepEqual(
      state.pids.toSorted((a, b) => a - b),
      pids,
    )
    assert.deepEqual(
      (await units.list()).map(({ id, storeId }) => [id, storeId]),
      [[web, 'test-store']],
    )
    await units.ensureStopped(web, never)
    assert.ok(!pids.some(lives))
    assert.deepEqual(await units.inspect(web), { kind: 'absent' })
    assert.equal((await start(stage, web)).kind, 'active')
  })

  promise('a left-over process is not ended if the signal is already aborted', async (stage) => {
    const { units, leave, lives } = stage
    const pid = await leave(web)
    const reason = new Error('the VM is being deleted')
    await assert.rejects(units.ensureStopped(web, AbortSignal.abort(reason)), reason)
    assert.ok(lives(pid))
  })

  promise('a watcher is notified of a start, an end and a stop', async (stage) => {
    const seen: (VmId | undefined)[] = []
    stage.units.watch((id) => seen.push(id))
    const announced = async (id: VmId): Promise<void> => {
      await until(
        () => [...seen],
        (ids) => ids.includes(id),
      )
      seen.length = 0
    }
    await start(stage, web)
    await announced(web)
    await stage.exit(web, 3)
    await reached(stage.units, web, 'failed')
    await announced(web)
    await start(stage, other)
    await stage.units.ensureStopped(other, never)
    await announced(other)
  })

  promise('an inspection of units notifies no watcher', async (stage) => {
    // No test starts it: systemd may still report the end of a unit of the last test.
    const looked = 'looked-at' as VmId
    const seen: (VmId | undefined)[] = []
    stage.units.watch((id) => seen.push(id))
    for (const _ of [1, 2, 3]) await stage.units.inspect(looked)
    await stage.units.list()
    await start(stage, other)
    await until(
      () => [...seen],
      (ids) => ids.includes(other),
    )
    assert.ok(!seen.includes(looked))
  })

  promise('nothing is started or stopped if the signal is already aborted', async (stage) => {
    const reason = new Error('the VM is being deleted')
    const aborted = AbortSignal.abort(reason)
    const spec = await stage.spec(web)
    await assert.rejects(stage.units.ensureStarted(web, spec, aborted), reason)
    assert.deepEqual(await stage.units.inspect(web), { kind: 'absent' })
    await start(stage, web)
    await assert.rejects(stage.units.ensureStopped(web, aborted), reason)
    assert.equal((await stage.units.inspect(web)).kind, 'active')
  })
}
