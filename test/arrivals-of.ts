import { Arrivals } from '../src/owners/migration/arrivals.ts'
import { recordingLog } from './recording-log.ts'
import type { TestContext } from 'node:test'
import type { Store } from '../src/store/store.ts'
import type { FakeHost } from './fakes/fake-host.ts'
import type { LogLine } from './recording-log.ts'

/** Makes the arrivals of a host without workers, with their log. They stop at the end of the test; it starts them. */
export function arrivalsOf(
  t: TestContext,
  parts: { readonly store: Store; readonly host: FakeHost },
): Arrivals & { readonly lines: readonly LogLine[] } {
  const { log, lines } = recordingLog()
  const arrivals = new Arrivals({
    ...parts,
    poke: () => {},
    betweenPasses: async () => undefined,
    log,
  })
  t.after(() => arrivals.stop())
  return Object.assign(arrivals, { lines })
}
