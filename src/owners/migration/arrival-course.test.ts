import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage } from '../../../test/command-stage.ts'
import { eventually } from '../../../test/daemon/support/eventually.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeHost } from '../../../test/fakes/fake-host.ts'
import { offered } from '../../../test/offered-vm.ts'
import { recordOf } from '../../../test/record.ts'
import { takeVm } from '../../commands/migration/take-vm.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { err, ok } from '../../lib/result.ts'
import { arrivalsOf } from '../../../test/arrivals-of.ts'
import type { TestContext } from 'node:test'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { SourceHost } from '../../ports/source-host.ts'

/** A VM that comes from a source which is busy whatever it is asked. */
async function busyStage(t: TestContext, begun: Partial<Arrival> = {}) {
  const { context, id, store, accepted } = commandStage(t)
  const clock = new FakeClock({ nowMs: 1000 })
  const host = new FakeHost(clock, store.storeId)
  accepted(takeVm(context, id, offered(id, recordOf())))
  const arrival = (): Arrival => store.vms.get(id)?.arrival ?? assert.fail('it does not come')
  store.arrivals.set(id, { ...arrival(), ...begun }, 1000)
  store.vms.recordProgress(id, {
    observed: { state: 'pending', sinceMs: 1000, waitingFor: 'the release' },
    nowMs: 1000,
  })
  let asked = 0
  const busy = async () => {
    asked += 1
    return err('busy')
  }
  t.mock.method(host.sourceHosts, 'at', () => ({ manifest: busy, release: busy }) as unknown as SourceHost)
  const arrivals = arrivalsOf(t, { store, host })
  await arrivals.start()
  let seen = 0
  /** Returns how long the course waits after each of the next attempts. */
  const delays = async (count: number): Promise<number[]> => {
    const found: number[] = []
    while (found.length < count) {
      await eventually(() => asked > seen && clock.nextMs() !== undefined)
      seen = asked
      const ms = clock.nextMs() ?? 0
      found.push(ms)
      clock.advance(ms)
    }
    return found
  }
  return { clock, id, store, arrival, delays }
}

test('a source that is busy before the handover is asked less and less often', async (t) => {
  const { delays } = await busyStage(t)
  assert.deepEqual(await delays(5), [1000, 2000, 4000, 8000, 16_000])
})

for (const stage of ['pulling', 'pulled'] as const)
  test(`${stage}: a guest that is down waits for no back-off, for as long as its source may keep it down`, async (t) => {
    const { delays } = await busyStage(t, { stage, expectsGuest: true })
    const count = limits.handoverMsMax / limits.handoverLookMs
    assert.deepEqual(new Set(await delays(count)), new Set([limits.handoverLookMs]))
    assert.deepEqual(await delays(2), [limits.retryBackoffMsMax, limits.retryBackoffMsMax])
  })

test('trouble says which attempt failed, and when the next one is', async (t) => {
  const { clock, arrival, delays } = await busyStage(t)
  await delays(2)
  await eventually(() => arrival().trouble?.attempt === 3)
  assert.equal(arrival().trouble?.nextAttemptAtMs, clock.now() + 4000)
})

/** A VM that comes from a source which takes its guest back. `failed`: a step that fails here, with the guest there. */
async function failingStage(
  t: TestContext,
  failed?: { readonly step: string; readonly attempt: number },
): Promise<{ readonly arrival: () => Arrival; readonly givenBack: () => number }> {
  const { context, id, store, accepted } = commandStage(t)
  const host = new FakeHost(new FakeClock({ nowMs: 1000 }), store.storeId)
  accepted(takeVm(context, id, offered(id, recordOf())))
  const record = store.vms.get(id)
  const arrival = (): Arrival => store.vms.get(id)?.arrival ?? assert.fail('it does not come')
  if (failed !== undefined && record !== undefined) {
    store.arrivals.set(id, { ...arrival(), stage: 'pulled' }, 1000)
    const times = { generation: record.generations.desired, sinceMs: 1000, nextAttemptAtMs: 2000 }
    const fault = { code: 'monitor_refused', message: 'on purpose', ...failed, ...times } as const
    store.vms.recordProgress(id, { observed: { state: 'pending', sinceMs: 1000, fault }, nowMs: 1000 })
  }
  let givenBack = 0
  const source: Partial<SourceHost> = {
    manifest: () => Promise.reject(new HostFault('round_lost', 'copying')),
    abort: async () => {
      givenBack += 1
      return ok(undefined)
    },
  }
  t.mock.method(host.sourceHosts, 'at', () => source)
  await arrivalsOf(t, { store, host }).start()
  await new Promise(setImmediate)
  return { arrival, givenBack: () => givenBack }
}

for (const [what, failed] of [
  ['a VM whose copy cannot go on', undefined],
  [
    'a guest that this host cannot load',
    { step: 'monitor.ensure-restored', attempt: limits.loadAttemptsMax },
  ],
] as const)
  test(`${what} goes back to its source`, async (t) => {
    const { arrival, givenBack } = await failingStage(t, failed)
    await eventually(() => givenBack() === 1)
    await eventually(() => arrival().stage === 'refused')
    assert.equal(arrival().because, 'unfit')
  })

for (const [what, failed] of [
  ['may be loaded at the next try', { step: 'monitor.ensure-restored', attempt: limits.loadAttemptsMax - 1 }],
  ['has trouble with its arrival alone', { step: 'arrival.pull', attempt: limits.loadAttemptsMax }],
] as const)
  test(`a guest that ${what} does not go back to its source`, async (t) => {
    const { arrival, givenBack } = await failingStage(t, failed)
    assert.deepEqual([arrival().stage, givenBack()], ['pulled', 0])
  })
