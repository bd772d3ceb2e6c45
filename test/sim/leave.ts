import { offerVm, withdrawOffer } from '../../src/commands/migration/offer-vm.ts'
import { unreachable } from '../../src/lib/assert.ts'
import type { CommandContext } from '../../src/commands/context.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { ArrivalId, DepartureStage } from '../../src/core/migration/departure.ts'
import type { MigrationId, NodeName } from '../../src/core/migration/offer.ts'
import type { Move } from '../../src/owners/migration/moves.ts'
import type { SourceSide } from '../../src/owners/migration/source-side.ts'
import type { Store } from '../../src/store/store.ts'

/** Times from an offer until it expires: one that ends in the midst of a move, and one that does not. */
export const EXPIRIES_MS: [number, ...number[]] = [3000, 3_600_000]

const arrival = 'a' as ArrivalId

let offers = 0

/** Offers a VM to another host. */
export function offer(context: CommandContext, id: VmId, expiryMs = 3_600_000): void {
  offers += 1
  const expiresAtMs = context.now() + expiryMs
  const names = { id: `move-${offers}` as MigrationId, node: 'node-2' as NodeName }
  void offerVm(context, id, { ...names, mode: 'live', expiresAtMs })
}

export const takeBack = (context: CommandContext, id: VmId): void => void withdrawOffer(context, id)

/**
 * Sends the next request of the destination, which does not wait for the answer. Returns the stage that the request
 * asks for. A request that fails, or whose answer is lost, is sent again at the next call.
 */
export function moveOn(source: SourceSide, store: Store, id: VmId): DepartureStage | undefined {
  const departure = store.vms.get(id)?.departure
  if (departure === undefined) return undefined
  const move: Move = { id: departure.id, node: departure.node, arrival }
  const { stage, lastRound = 0 } = departure
  switch (stage) {
    case 'offered':
      lost(source.ensureRound(move, 1, never))
      return 'copying'
    case 'copying':
      lost(source.handOver(move, never))
      return 'handing_over'
    case 'handed_over':
      lost(source.release(move, lastRound))
      return 'released'
    case 'handing_over':
    case 'released':
    case 'withdrawn':
      return undefined
    default:
      return unreachable(stage)
  }
}

const never = new AbortController().signal
const lost = (answer: Promise<unknown>): void => void answer.catch(() => {})
