import { plan } from '../core/plan/plan.ts'
import type { Plan } from '../core/plan/step.ts'
import type { World } from '../core/plan/world.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Host } from '../ports/host.ts'
import type { Intent } from './intent.ts'

/** Plans with the facts of this host and moment. */
export function decide(host: Host, record: VmRecord, seen: { world: World; intent: Intent }): Plan {
  const { seed, tap } = seen.intent
  return plan(record, seen.world, {
    nowMs: host.clock.now(),
    bootId: host.bootId,
    capabilities: host.monitor.capabilities,
    seedDigest: seed.digest,
    ...(tap === undefined ? {} : { tap }),
  })
}
