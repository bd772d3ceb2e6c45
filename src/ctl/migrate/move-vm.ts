/** One move of a VM, for each command that moves some. */
import { follow } from './follow.ts'
import { hostOf, lookAt } from './hosts.ts'
import { whereWords } from './migrate-words.ts'
import { ensureOffer } from './offer.ts'
import { removeRecord } from './remove-record.ts'
import { clearRest, ensureTaken } from './take.ts'
import type { Context } from '../command.ts'
import type { CtlError } from '../ctl-error.ts'
import type { Move, Sides } from './hosts.ts'
import type { Offered } from './offer.ts'
import type { IsEmpty } from './remove-record.ts'

/** A VM that lives at its destination. `isKept`: its record is still at the source. */
export type Moved = { readonly sides: Sides; readonly node: string; readonly isKept: boolean }

/**
 * Has the source offer the VM and the destination take it, or finds that both do. If the destination refuses, an offer
 * of this call is withdrawn. Throws CtlError.
 */
export async function beginMove(context: Context, move: Move, url: string): Promise<Offered> {
  await clearRest(context, move)
  const offered = await ensureOffer(context, move)
  return ensureTaken(context, move, { offered, url })
}

type Begun = {
  readonly offered: Offered
  /** Keeps what the hosts had when they were last seen. */
  readonly seen: { sides: Sides }
}

/** Waits until the guest lives at the destination, and removes its record at the source. Throws CtlError. */
export async function seeThrough(context: Context, move: Move, { offered, seen }: Begun): Promise<Moved> {
  const sides = await follow(context, move, { offered, onSight: (now) => (seen.sides = now) })
  const isKept = await removeSource(context, move, { sides, offered })
  return { sides, node: offered.node, isKept }
}

/** Removes the record at the source; returns whether it is kept. */
async function removeSource(
  context: Context,
  { id, source }: Move,
  { sides, offered: { migrationId } }: Pick<Moved, 'sides'> & Pick<Begun, 'offered'>,
): Promise<boolean> {
  // The destination may be seen first, if the guest lives there already.
  const here = sides.here ?? (await lookAt(source, id))
  if (here === undefined) return false
  if (context.given.isSet('keep')) return true
  if (here.protected) {
    context.warn(
      `${id} is protected, so its record stays at ${hostOf(source)}; to remove it there: vmhostctl vm set ${id} --protected no, then vmhostctl vm rm ${id}`,
    )
    return true
  }
  const isEmpty: IsEmpty = ({ observed: { migration } }) =>
    migration?.migration_id === migrationId && migration.stage === 'released'
  await removeRecord(context, source, { id, isEmpty })
  return false
}

/** Returns the error that ended a move, with where the guest is. */
export async function stayed(move: Move, error: unknown, seen: Sides): Promise<CtlError> {
  const failed = move.source.failed(error)
  return failed.reworded({ advice: [await whereNow(move, seen), ...failed.advice] })
}

/** Looks at the source once more, because what it has decides where the guest is. */
async function whereNow(move: Move, seen: Sides): Promise<string> {
  const { data } = await move.source.client
    .GET('/v1/vms/{id}', { params: { path: { id: move.id } } })
    .catch(() => ({ data: undefined }))
  return whereWords({ ...seen, here: data ?? seen.here }, move)
}

export function movedWords({ id, source, destination }: Move, { sides, node, isKept }: Moved): string {
  const rest = isKept ? `; its record is still at ${hostOf(source)}` : ''
  return `${id}: moved to ${node} (${hostOf(destination)}), ${sides.there?.observed.state}${rest}`
}

/** Returns the last line about a move for a program. */
export const movedLine = ({ id }: Move, { sides, node, isKept }: Moved): string =>
  JSON.stringify({ vm: id, stage: 'moved', node, state: sides.there?.observed.state, kept: isKept })
