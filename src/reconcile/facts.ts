/** Facts of a plan: of this host and moment, of what the record asks for, and what only this process knows. */
import { given } from '../lib/given.ts'
import type { Facts } from '../core/plan/facet.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Host } from '../ports/host.ts'
import type { Pass } from './context.ts'
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
  { intent: { seed, tap }, own }: { readonly intent: Intent; readonly own: ProcessFacts },
): Facts {
  return {
    nowMs: host.clock.now(),
    ...own,
    capabilities: host.monitors[monitor].capabilities,
    seedDigest: seed.digest,
    ...given({ tap }),
  }
}

/** Returns the facts of a pass, as they are now. */
export function factsOfPass(pass: Pass): Facts {
  const { record, saves, restores, hostEnd, silentMs, memory, drain } = pass
  const own: ProcessFacts = {
    maySave: saves.mayBegin,
    mayRestore: restores.mayBegin,
    silentMs,
    memory: () => memory.standing(record),
    memoryIsShort: memory.isShort,
    ...hostEnd.factsFor(record.id),
    ...given({ drain }),
  }
  return factsOf(pass.host, record, { intent: pass.intent, own })
}
