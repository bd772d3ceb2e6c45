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
import { err } from '../../lib/result.ts'
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
