import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { HostFault } from '../core/errors.ts'
import type { LogLine } from '../../test/recording-log.ts'
import type { VmId } from '../core/ids.ts'

const contextOf = (line: LogLine | undefined): unknown[] =>
  ['vm_id', 'operation_id', 'generation', 'step'].map((name) => line?.[name])

test('a line of a driver has the VM, the operation and the step that it acts for', async (t) => {
  const { host, log, lines, id, vm, create, idle } = await reconcileStage(t)
  const inspect = host.storage.inspect.bind(host.storage)
  mock.method(host.storage, 'inspect', (...args: Parameters<typeof inspect>) => {
    log.debug({}, 'the pool is looked at')
    return inspect(...args)
  })
  const ensureDisk = host.storage.ensureDisk.bind(host.storage)
  mock.method(host.storage, 'ensureDisk', async (...args: Parameters<typeof ensureDisk>) => {
    await ensureDisk(...args)
    log.debug({ method: 'reflink' }, 'disk made')
  })
  create()
  await idle()
  const { operationId } = vm()
  const made = lines.find(({ message }) => message === 'disk made')
  assert.deepEqual(contextOf(made), [id, operationId, 1, 'storage.ensure-disk'])
  const looked = lines.findLast(({ message }) => message === 'the pool is looked at')
  assert.deepEqual(contextOf(looked), [id, operationId, 1, undefined])
})

test('one line has the steps of a pass and when they ran, before the line of the step that failed', async (t) => {
  const { host, clock, lines, id, create, idle } = await reconcileStage(t)
  const ensureDisk = host.storage.ensureDisk.bind(host.storage)
  mock.method(host.storage, 'ensureDisk', async (...args: Parameters<typeof ensureDisk>) => {
    clock.advance(250)
    await ensureDisk(...args)
  })
  mock.method(host.units, 'ensureStarted', async () => {
    throw new HostFault('unit_start_failed', 'on purpose')
  })
  create()
  await idle()
  const [done, failed] = lines.filter(({ message }) => /^(steps done|pass failed)$/.test(message)).slice(-2)
  assert.deepEqual([done?.['vm_id'], done?.['generation'], done?.['elapsed_ms']], [id, 1, 250])
  assert.deepEqual(
    [done?.message, failed?.message, failed?.['step']],
    ['steps done', 'pass failed', 'unit.ensure-started'],
  )
  const steps = done?.['steps'] as { step: string; because: string; after_ms: number; elapsed_ms: number }[]
  const at = steps.findIndex(({ step }) => step === 'storage.ensure-disk')
  assert.deepEqual(
    steps.slice(at, at + 2).map(({ after_ms, elapsed_ms }) => [after_ms, elapsed_ms]),
    [
      [0, 250],
      [250, 0],
    ],
  )
  assert.ok(steps.every(({ step, because }) => step !== 'unit.ensure-started' && because.length > 0))
})

test('what was done before a long step is in the log before that step ends', async (t) => {
  const { host, lines, createWithoutImage, idle, turns } = await reconcileStage(t)
  const done = () =>
    lines.filter(({ message }) => message === 'steps done').map(({ steps }) => (steps as object[]).length)
  const release = createWithoutImage(1)
  await turns()
  assert.deepEqual(done(), [])
  const releaseSecond = host.storage.holdNext('ensureImage')
  release()
  await turns()
  assert.deepEqual(done(), [1])
  releaseSecond()
  await idle()
  const [first, second] = lines.filter(({ message }) => message === 'steps done')
  assert.ok('first_action_ms' in (first ?? {}) && !('first_action_ms' in (second ?? {})))
})

test('a bug in a step hides no step that was done before it', async (t) => {
  const { host, lines, create, idle } = await reconcileStage(t)
  mock.method(host.units, 'ensureStarted', async () => {
    throw new Error('a bug')
  })
  create()
  await idle()
  const [done, bug] = lines.filter(({ message }) => /^(steps done|pass failed)/.test(message)).slice(-2)
  assert.deepEqual([done?.message, bug?.message], ['steps done', 'pass failed: internal error'])
})

test('a VM that is woken in the middle of the step of another has no field of that step in its lines', async (t) => {
  const { host, context, store, lines, id, create, idle } = await reconcileStage(t)
  const other = 'web-2' as VmId
  create({ network: {}, power: 'stopped' }, other)
  await idle()
  const ensureDisk = host.storage.ensureDisk.bind(host.storage)
  mock.method(host.storage, 'ensureDisk', async (...args: Parameters<typeof ensureDisk>) => {
    setPower(context, other, 'running')
    await ensureDisk(...args)
  })
  lines.length = 0
  create({ network: {} })
  await idle()
  const operations = (vm: VmId) =>
    new Set(lines.filter(({ vm_id }) => vm_id === vm).map(({ operation_id }) => operation_id))
  for (const vm of [id, other]) assert.deepEqual([...operations(vm)], [store.vms.get(vm)?.operationId])
  assert.deepEqual(
    lines.filter(({ vm_id }) => vm_id === undefined),
    [],
  )
})

test('a look that a timer began has the operation that is desired, and no step', async (t) => {
  const { host, log, lines, id, vm, create, idle, later } = await reconcileStage(t)
  create()
  await idle()
  const inspect = host.taps.inspect.bind(host.taps)
  mock.method(host.taps, 'inspect', (...args: Parameters<typeof inspect>) => {
    log.debug({}, 'the tap is looked at')
    return inspect(...args)
  })
  await later(600_000)
  const looked = lines.findLast(({ message }) => message === 'the tap is looked at')
  assert.deepEqual(contextOf(looked), [id, vm().operationId, 1, undefined])
})
