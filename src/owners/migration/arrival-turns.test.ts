import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { arrivalsOf } from '../../../test/arrivals-of.ts'
import { commandStage } from '../../../test/command-stage.ts'
import { eventually } from '../../../test/daemon/support/eventually.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeHost } from '../../../test/fakes/fake-host.ts'
import { offered } from '../../../test/offered-vm.ts'
import { recordOf } from '../../../test/record.ts'
import { takeVm } from '../../commands/migration/take-vm.ts'
import { abortable } from '../../lib/abortable.ts'
import { err } from '../../lib/result.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { SourceHost } from '../../ports/source-host.ts'

const [FIRST, SECOND] = ['https://host-1.example:9001', 'https://host-2.example:9001'] as const

/** Takes VMs from these sources, in this order. Each source is silent until it ends what it was asked first. */
async function turnsStage(t: TestContext, sources: readonly string[]) {
  const { context, store, accepted } = commandStage(t)
  const host = new FakeHost(new FakeClock({ nowMs: 1000 }), store.storeId)
  const { network: _none, ...desired } = recordOf().desired
  for (const [index, source] of sources.entries()) {
    const id = `web-${index}` as VmId
    const request = offered(id, { ...recordOf(), desired })
    accepted(takeVm(context, id, { ...request, source, arrivalId: `a-${index}` as ArrivalId }))
  }
  const asked: { readonly origin: string; readonly end: () => void }[] = []
  const at = (origin: string): Partial<SourceHost> => ({
    manifest: async (_id, signal) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      asked.push({ origin, end: resolve })
      await abortable(promise, signal)
      return err('withdrawn')
    },
  })
  t.mock.method(host.sourceHosts, 'at', at)
  await arrivalsOf(t, { store, host }).start()
  return {
    /** Returns the sources of the VMs that were begun so far, when there are so many. */
    begun: async (count: number): Promise<readonly string[]> => {
      await eventually(() => asked.length === count)
      await turn()
      return asked.map(({ origin }) => origin)
    },
    endFirst: () => asked[0]?.end(),
  }
}

test('a source with many VMs has all places, and gives the next one to another source that waits', async (t) => {
  const { begun, endFirst } = await turnsStage(t, [FIRST, FIRST, FIRST, FIRST, SECOND])
  assert.deepEqual(await begun(2), [FIRST, FIRST])
  endFirst()
  assert.deepEqual(await begun(3), [FIRST, FIRST, SECOND])
})
