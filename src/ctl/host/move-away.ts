import { answered } from '../../client/api-client.ts'
import { limits } from '../../config/limits.ts'
import { printable } from '../../lib/text.ts'
import { CtlError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { destinationsOf } from '../migrate/destinations.ts'
import { sourceUrl } from '../migrate/offer.ts'
import { listVms } from '../vm/list.ts'
import { reasonOf } from './cordon.ts'
import { moveGuests } from './move-guests.ts'
import type { components } from '../../client/schema.d.ts'
import type { Context } from '../command.ts'
import type { ExitStatus } from '../exit-status.ts'

type Drain = NonNullable<components['schemas']['SetMaintenance']['drain']>

/**
 * Cordons the host, and moves its VMs to the hosts of `--to`. Returns the worst status of the moves. Does nothing on a
 * host whose other guests come to rest already. Throws CtlError.
 */
export async function moveAway(context: Context, drain: Drain): Promise<ExitStatus> {
  const { client, given } = context
  const source = context.daemon()
  const url = sourceUrl(context, { source })
  const profiles = [...new Set(given.texts('to'))]
  const destinations = await destinationsOf(
    source,
    profiles.map((profile) => context.daemon(profile)),
  )
  const { data: maintenance } = await answered(client().GET('/v1/maintenance', {}))
  if (maintenance.state === 'drained') {
    if (drain.guests !== undefined) return exitStatus.done
    throw new CtlError('the host is drained: its guests rest, and a guest moves while it runs', {
      code: 'conflict',
      status: exitStatus.failed,
      advice: ['vmhostctl host cordon brings them back; then run this command again to move them'],
    })
  }
  const body = { state: 'cordoned' as const, ...(await reasonOf(context)) }
  await answered(client().PUT('/v1/maintenance', { body }))
  const { at_once: atOnce = limits.drainAtOnceDefault } = drain
  const { moved, status } = await moveGuests(context, { source, destinations, url, atOnce })
  const left = (await listVms(client())).map(({ id }) => id)
  if (context.json) context.shell.stdout.write(`${JSON.stringify({ stage: 'emptied', moved, left })}\n`)
  else context.print(undefined, () => printable(outcomeWords(moved, left)))
  return status
}

function outcomeWords(moved: number, left: readonly string[]): string {
  const head = `${moved} ${moved === 1 ? 'VM' : 'VMs'} moved`
  if (left.length === 0) return `${head}; no VM is left`
  const names = left.slice(0, limits.ctlNamesMax).join(', ')
  const more = left.length > limits.ctlNamesMax ? ', …' : ''
  return `${head}; ${left.length} ${left.length === 1 ? 'is' : 'are'} left: ${names}${more}`
}
