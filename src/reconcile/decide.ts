import { plan } from '../core/plan/plan.ts'
import { given } from '../lib/given.ts'
import type { Facts } from '../core/plan/facet.ts'
import type { Plan } from '../core/plan/step.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { World } from '../core/world/world.ts'
import type { Host } from '../ports/host.ts'
import type { Intent } from './intent.ts'

/** Facts that only this process knows. */
export type ProcessFacts = Pick<
  Facts,
  'maySave' | 'mayRestore' | 'guestAtShutdown' | 'drain' | 'silentMs' | 'memory' | 'memoryIsShort'
>

/** Returns the facts of this host and moment. */
export function factsOf(
  host: Host,
  { monitor }: Pick<VmRecord, 'monitor'>,
  { seed, tap, ...own }: Intent & ProcessFacts,
): Facts {
  return {
    nowMs: host.clock.now(),
    ...own,
    capabilities: host.monitors[monitor].capabilities,
    seedDigest: seed.digest,
    ...given({ tap }),
  }
}

/** Plans with the facts. */
export function decide(
  host: Host,
  record: VmRecord,
  seen: { readonly world: World; readonly intent: Intent; readonly own: ProcessFacts },
): Plan {
  return plan(record, seen.world, factsOf(host, record, { ...seen.intent, ...seen.own }))
}
