import assert from 'node:assert/strict'
import { test } from 'node:test'
import { offered } from '../../test/offered-vm.ts'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { recordOf } from '../../test/record.ts'
import { limits } from '../config/limits.ts'
import { takeVm } from '../commands/migration/take-vm.ts'
import { HostFault } from '../core/errors.ts'
import type { TestContext } from 'node:test'
import type { Arrival } from '../core/migration/arrival.ts'
import type { Fault } from '../core/vm/record.ts'

const UNREACHABLE = { code: 'source_unreachable', retry: 'backoff', message: 'asking the source' } as const

/** A VM that comes, and whose course the test gives. */
async function arriveStage(t: TestContext) {
  const stage = await reconcileStage(t)
  const { context, clock, store, id, vm, idle } = stage
  assert.ok(takeVm(context, id, offered(id, recordOf())).ok)
  await idle()
  return {
    ...stage,
    waitsFor: () => vm().observed.waitingFor,
    /** Changes the arrival as its course does, and lets the worker follow. */
    happens: async (changes: Partial<Arrival>): Promise<void> => {
      const { trouble: _over, ...arrival } = vm().arrival ?? assert.fail('it does not come')
      store.arrivals.set(id, { ...arrival, ...changes }, clock.now())
      context.poke(id, 'arrival changed')
      await idle()
    },
  }
}

test('the error of a VM that comes ends when its source answers, long before the VM is here', async (t) => {
  const { shown, happens, waitsFor } = await arriveStage(t)
  await happens({ trouble: UNREACHABLE })
  assert.deepEqual([shown(), waitsFor()], ['failed source_unreachable', 'the source'])
  await happens({})
  assert.deepEqual([shown(), waitsFor()], ['pending', 'the source'])
})

test('the attempt that is shown of a VM that comes is that of its course, however often its worker looks', async (t) => {
  const { clock, context, id, vm, happens, idle, later, lines } = await arriveStage(t)
  const nextAttemptAtMs = clock.now() + 31_000
  await happens({ trouble: { ...UNREACHABLE, attempt: 6, nextAttemptAtMs } })
  const shown = () => [vm().observed.fault?.attempt, vm().observed.fault?.nextAttemptAtMs]
  assert.deepEqual(shown(), [6, nextAttemptAtMs])
  context.poke(id, 'something else')
  await idle()
  assert.deepEqual(shown(), [6, nextAttemptAtMs])
  // The worker must not look all the time while the attempt is under way.
  await later(40_000)
  context.poke(id, 'something else')
  await idle()
  assert.deepEqual(shown(), [6, nextAttemptAtMs])
  assert.ok((clock.nextMs() ?? 0) > 0)
  assert.equal(lines.filter(({ message }) => message === 'pass failed').length, 1)
})

test('the error of a VM that comes has ended when the host begins to prepare for its guest', async (t) => {
  const { host, vm, happens } = await arriveStage(t)
  await happens({ trouble: UNREACHABLE })
  const faults: (Fault | undefined)[] = []
  const ensure = host.taps.ensure.bind(host.taps)
  t.mock.method(host.taps, 'ensure', (...args: Parameters<typeof ensure>) => {
    faults.push(vm().observed.fault)
    return ensure(...args)
  })
  await happens({ expectsGuest: true })
  assert.deepEqual(faults, [undefined])
})

test('an error of another kind stays until it is over, whatever the source answers', async (t) => {
  const { host, shown, happens, waitsFor } = await arriveStage(t)
  host.taps.failNext('inspect', new HostFault('network_failed', 'no answer', { retry: 'backoff' }))
  await happens({ expectsGuest: true })
  host.taps.failNext('inspect', new HostFault('network_failed', 'no answer', { retry: 'backoff' }))
  await happens({ round: 2 })
  assert.equal(shown(), 'failed network_failed')
  await happens({ round: 3 })
  assert.deepEqual([shown(), waitsFor()], ['pending', 'the source'])
})

test('attempts to prepare for a guest do not count as attempts to load it, once they succeed', async (t) => {
  const { host, shown, happens, later, waitsFor } = await arriveStage(t)
  host.taps.failNext('ensure', new HostFault('network_failed', 'busy', { retry: 'backoff' }))
  await happens({ expectsGuest: true })
  host.taps.failNext('ensure', new HostFault('network_failed', 'busy', { retry: 'backoff' }))
  await later(limits.retryBackoffMsMin)
  assert.equal(shown(), 'failed network_failed')
  await later(limits.retryBackoffMsMax)
  assert.deepEqual([shown(), waitsFor()], ['pending', 'the source'])
})

test('the error of a VM that is here ends when only its release is missing', async (t) => {
  const { host, shown, happens, later, waitsFor } = await arriveStage(t)
  host.taps.failNext('ensure', new HostFault('network_failed', 'busy', { retry: 'backoff' }))
  await happens({ stage: 'pulled' })
  assert.equal(shown(), 'failed network_failed')
  await later(limits.retryBackoffMsMax)
  assert.deepEqual([shown(), waitsFor()], ['pending', 'the release'])
})

test('a unit that stops for a VM that has been coming for hours is not overdue at once', async (t) => {
  const { host, shown, happens, later, waitsFor } = await arriveStage(t)
  await later(3_600_000)
  t.mock.method(host.units, 'inspect', () => Promise.resolve({ kind: 'deactivating' as const }))
  await happens({ stage: 'pulled', wakes: true })
  assert.deepEqual([shown(), waitsFor()], ['stopping', 'the unit to stop'])
})
