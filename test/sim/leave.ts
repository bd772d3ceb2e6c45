import { offerVm, withdrawOffer } from '../../src/commands/migration/offer-vm.ts'
import { afterEvent } from '../../src/core/migration/departure.ts'
import { unreachable } from '../../src/lib/assert.ts'
import type { CommandContext } from '../../src/commands/context.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { ArrivalId, DepartureEvent } from '../../src/core/migration/departure.ts'
import type { MigrationId, NodeName } from '../../src/core/migration/offer.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'
import type { FakeHost } from '../fakes/fake-host.ts'

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

/** Takes the next step of the destination, if the source is ready for it. Returns that step. */
export function moveOn(
  context: CommandContext,
  host: FakeHost,
  id: VmId,
): DepartureEvent['kind'] | undefined {
  const { store, now } = context
  const record = store.vms.get(id)
  const event = record && nextEvent(record, host)
  if (record?.departure === undefined || event === undefined) return undefined
  const after = afterEvent(record.departure, event, now())
  if (!after.ok) return undefined
  store.departures.set(id, after.value, now())
  context.poke(id, event.kind)
  return event.kind
}

function nextEvent({ id, desired, departure }: VmRecord, host: FakeHost): DepartureEvent | undefined {
  const stage = departure?.stage
  switch (stage) {
    case 'offered':
      return { kind: 'copy', arrival }
    case 'copying':
      return { kind: 'hand_over', arrival, lived: 'running' }
    case 'handing_over': {
      const isSaved = host.savedStates.metadataOf(id) !== undefined || desired.power === 'stopped'
      const isGone = host.fakeUnits.stateOf(id).kind === 'absent'
      return isSaved && isGone ? { kind: 'guest_saved', lastRound: 1 } : undefined
    }
    case 'handed_over':
      return { kind: 'release', arrival, lastRound: 1 }
    case 'released':
    case 'withdrawn':
    case undefined:
      return undefined
    default:
      return unreachable(stage)
  }
}
