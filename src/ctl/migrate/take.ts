import { answered } from '../../client/api-client.ts'
import { ApiProblem } from '../../client/api-problem.ts'
import { hostOf, lookAt, waitAt } from './hosts.ts'
import { withdraw } from './offer.ts'
import { removeRecord } from './remove-record.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Context, Daemon } from '../command.ts'
import type { Offered } from './offer.ts'
import type { Move } from './hosts.ts'
import type { IsEmpty } from './remove-record.ts'

/**
 * Ensures that the destination takes the VM. If it refuses, withdraws an offer that this call has made: then nothing
 * has changed. Returns the offer with the fault that the destination is to try again. Throws CtlError.
 */
export async function ensureTaken(
  context: Context,
  move: Move,
  { offered, url }: { readonly offered: Offered; readonly url: string },
): Promise<Offered> {
  const { id, destination } = move
  const { migrationId, isNew } = offered
  const arrival = (await lookAt(destination, id))?.observed.arrival
  const isTaken = arrival?.migration_id === migrationId
  if (isTaken && !context.given.hasAny(['source-url'])) return offered
  const body = { migration_id: migrationId, source_url: url }
  try {
    const { data, status } = await answered<Vm>(
      destination.client.PUT('/v1/vms/{id}/arrival', { params: { path: { id } }, body }),
    )
    // A request that changes nothing makes no other try.
    return status === 200 ? offered : { ...offered, earlier: data.observed.fault }
  } catch (error) {
    if (isNew && error instanceof ApiProblem) await withdraw(move)
    throw destination.failed(error)
  }
}

/**
 * Removes what an earlier migration has left at the destination. Waits until the destination has heard that it ended:
 * the source answers for its newest migration alone, so after another offer the destination would ask in vain,
 * and keep its copy.
 */
export async function clearRest(context: Context, { id, source, destination }: Move): Promise<void> {
  const arrival = (await lookAt(destination, id))?.observed.arrival
  if (arrival === undefined || arrival.stage === 'released') return
  const departure = (await lookAt(source, id))?.observed.migration
  const isEnded = departure?.migration_id === arrival.migration_id && departure.stage === 'withdrawn'
  if (arrival.stage !== 'refused') {
    if (!isEnded) return
    await untilRefused(context, id, destination)
  }
  context.warn(`${id}: removing what an earlier attempt has left at ${hostOf(destination)}`)
  const isEmpty: IsEmpty = ({ observed }) => observed.arrival?.stage === 'refused'
  await removeRecord(context, destination, { id, isEmpty, isForced: true })
}

const untilRefused = (context: Context, id: string, destination: Daemon): Promise<unknown> =>
  waitAt(context, destination, {
    id,
    words: () => `${id}: ${hostOf(destination)} has not heard yet that the last migration has ended`,
    isOver: ({ observed }) => observed.arrival?.stage === 'refused',
    missed: `of an ended migration is still at ${hostOf(destination)}`,
    onwards: 'run the command again to continue',
  })
