import { answered, done } from '../../client/api-client.ts'
import { ApiProblem } from '../../client/api-problem.ts'
import { watchVm } from '../../client/watch.ts'
import { limits } from '../../config/limits.ts'
import { waitFor } from '../wait.ts'
import { at, hostOf, lookAt } from './hosts.ts'
import { withdraw } from './offer.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Context, Daemon } from '../command.ts'
import type { Offered } from './offer.ts'
import type { Move } from './hosts.ts'

/**
 * Ensures that the destination takes the VM. Removes what an earlier attempt has left there. If the destination refuses,
 * withdraws an offer that this call has made: then nothing has changed. Throws CtlError.
 */
export async function ensureTaken(
  context: Context,
  move: Move,
  { offered, url }: { readonly offered: Offered; readonly url: string },
): Promise<void> {
  const { id, destination } = move
  const { migrationId, isNew } = offered
  const there = await lookAt(destination, id)
  const arrival = there?.observed.arrival
  const isTaken = arrival?.migration_id === migrationId
  if (isTaken && !context.given.hasAny(['source-url'])) return
  if (!isTaken && arrival?.stage === 'refused') await removeRest(context, move)
  const body = { migration_id: migrationId, source_url: url }
  try {
    await answered<Vm>(destination.client.PUT('/v1/vms/{id}/arrival', { params: { path: { id } }, body }))
  } catch (error) {
    if (isNew && error instanceof ApiProblem) await withdraw(move)
    throw destination.failed(error)
  }
}

/** Removes the record of a VM that an earlier attempt has left at the destination, where nothing of it may run. */
async function removeRest(context: Context, { id, destination }: Move): Promise<void> {
  context.warn(`${id}: removing what an earlier attempt has left at ${hostOf(destination)}`)
  await removeRecord(context, destination, id)
}

/** Deletes a VM at a daemon, and waits until nothing of it is left there. Throws CtlError. */
export async function removeRecord(context: Context, daemon: Daemon, id: string): Promise<void> {
  await at(daemon, done(daemon.client.DELETE('/v1/vms/{id}', { params: { path: { id } } })))
  await at(
    daemon,
    waitFor<Vm>(context, {
      id,
      watch: (_client, name, options) => watchVm(daemon.client, name, options),
      wasThere: true,
      defaultSeconds: limits.ctlMigrateSecondsDefault,
      words: () => `${id}: removing its record at ${hostOf(daemon)}`,
      notes: () => [],
      isOver: () => false,
      missed: `is not removed from ${hostOf(daemon)}`,
      standing: ({ observed: { error } }) => ({
        words: '',
        advice: error === undefined ? [] : [`the reason: ${error}`],
      }),
      onwards: 'that host goes on removing it',
    }),
  )
}
