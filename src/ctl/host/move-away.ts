import { answered } from '../../client/api-client.ts'
import { limits } from '../../config/limits.ts'
import { printable } from '../../lib/text.ts'
import { CtlError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { destinationsOf, isOffered } from '../migrate/destinations.ts'
import { sourceUrl } from '../migrate/offer.ts'
import { listVms } from '../vm/list.ts'
import { reasonOf } from './cordon.ts'
import { moveGuests, movingVms, worse } from './move-guests.ts'
import type { components } from '../../client/schema.d.ts'
import type { Context } from '../command.ts'
import type { ExitStatus } from '../exit-status.ts'

type Drain = NonNullable<components['schemas']['SetMaintenance']['drain']>

/**
 * Cordons the host, and moves its VMs to the hosts of `--to`. On a host that is drained, only follows the moves that
 * have begun, because the drain would otherwise start guests that it has saved. Returns the worst status of the VMs
 * that were to move. Throws CtlError.
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
  const isDrained = maintenance.state === 'drained'
  if (isDrained && drain.guests === undefined) throw drainedAlready()
  if (!isDrained) {
    const body = { state: 'cordoned' as const, ...(await reasonOf(context)) }
    await answered(client().PUT('/v1/maintenance', { body }))
  }
  const wanted = await movingVms(context, destinations)
  const vms = isDrained ? wanted.filter(isOffered) : wanted
  const { at_once: atOnce = limits.drainAtOnceDefault } = drain
  const { moved, status } = await moveGuests(context, { source, destinations, url, atOnce, vms })
  const rests = vms.length < wanted.length ? context.fail(drainedAlready()) : exitStatus.done
  const left = (await listVms(client())).map(({ id }) => id)
  if (context.json) context.shell.stdout.write(`${JSON.stringify({ stage: 'emptied', moved, left })}\n`)
  else context.print(undefined, () => printable(outcomeWords(moved, left)))
  return worse(status, rests)
}

const drainedAlready = (): CtlError =>
  new CtlError('the host is drained: its guests rest, and none begins to move', {
    code: 'conflict',
    status: exitStatus.failed,
    advice: ['vmhostctl host cordon brings them back; then run this command again to move them'],
  })

function outcomeWords(moved: number, left: readonly string[]): string {
  const head = `${moved} ${moved === 1 ? 'VM' : 'VMs'} moved`
  if (left.length === 0) return `${head}; no VM is left`
  const names = left.slice(0, limits.ctlNamesMax).join(', ')
  const more = left.length > limits.ctlNamesMax ? ', …' : ''
  return `${head}; ${left.length} ${left.length === 1 ? 'is' : 'are'} left: ${names}${more}`
}
