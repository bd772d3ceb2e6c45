import { Arrivals } from '../src/owners/migration/arrivals.ts'
import { silentLog } from '../src/log/log.ts'
import type { TestContext } from 'node:test'
import type { Store } from '../src/store/store.ts'
import type { FakeHost } from './fakes/fake-host.ts'

/** Makes the arrivals of a host without workers. They stop at the end of the test; it starts them. */
export function arrivalsOf(
  t: TestContext,
  parts: { readonly store: Store; readonly host: FakeHost },
): Arrivals {
  const arrivals = new Arrivals({
    ...parts,
    poke: () => {},
    betweenPasses: async () => undefined,
    log: silentLog,
  })
  t.after(() => arrivals.stop())
  return arrivals
}
