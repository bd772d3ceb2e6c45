import { limits } from '../../config/limits.ts'
import { unreachable } from '../../lib/assert.ts'
import { Refused } from '../listener/refused.ts'
import type { Rejection, RejectionCode } from '../../core/errors.ts'
import type { SourceRefusal } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { Result } from '../../lib/result.ts'

/** Codes that any request about a migration can be refused with, beside those of every route. */
export const MOVE_CODES = [
  'not_found',
  'migration_withdrawn',
  'migration_released',
  'migration_not_yours',
] as const satisfies readonly RejectionCode[]

/** Returns the answer of the source, or throws the refusal that the destination gets. */
export function granted<T>(id: MigrationId, answer: Result<T, SourceRefusal>): T {
  if (!answer.ok) throw new Refused(rejectionOf(id, answer.error))
  return answer.value
}

export const refuseStream = (id: MigrationId): Rejection => ({
  code: 'migrations_busy',
  detail: `the destination reads ${limits.streamsPerOfferMax} streams of migration ${id} at once: end some of them, and ask again`,
})

export function rejectionOf(id: MigrationId, refusal: SourceRefusal): Rejection {
  switch (refusal) {
    // The same words for an offer to another node: a node learns nothing about the offers of others.
    case 'unknown':
      return {
        code: 'not_found',
        detail: `there is no migration ${id} to this node on this host`,
      }
    case 'withdrawn':
      return {
        code: 'migration_withdrawn',
        detail: `migration ${id} was withdrawn: the VM stays on this host`,
      }
    case 'released':
      return {
        code: 'migration_released',
        detail: `the VM of migration ${id} was released, so nothing of it is left to copy or to abort`,
      }
    case 'not_yours':
      return {
        code: 'migration_not_yours',
        detail: `another attempt takes the VM of migration ${id}, or none has begun to copy it`,
      }
    case 'too_early':
      return {
        code: 'migration_too_early',
        detail: `the guest of migration ${id} is not handed over yet: ask for the handover`,
      }
    case 'outdated':
      return {
        code: 'migration_outdated',
        detail: `the request does not name the last round of migration ${id}`,
      }
    case 'busy':
      return {
        code: 'migrations_busy',
        detail: `this host copies ${limits.departuresAtOnceMax} other VMs now: ask again in a while`,
      }
    default:
      return unreachable(refusal)
  }
}
