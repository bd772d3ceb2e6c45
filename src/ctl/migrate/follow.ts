import { limits } from '../../config/limits.ts'
import { CtlError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { isInTrouble } from '../vm/vm-words.ts'
import { abortAfter, waitFor } from '../wait.ts'
import { arrivalOf, departureOf, hostOf, lookAt } from './hosts.ts'
import { hasArrived, keptWords, lineOf, moveNotes, moveWriter, stageWords } from './migrate-words.ts'
import { watchVm } from '../../client/watch.ts'
import type { Context, Daemon } from '../command.ts'
import type { Move, Sides } from './hosts.ts'
import type { Offered } from './offer.ts'
import type { Sight, WatchOptions } from '../../client/watch.ts'
import type { Vm } from '../../client/api-client.ts'

type Followed = {
  readonly offered: Offered
  /** Called with what both hosts have, whenever it has changed. */
  readonly onSight: (sides: Sides) => void
}

/** Waits until the guest lives at the destination, and shows how far it is. Throws CtlError if it will not. */
export async function follow(context: Context, move: Move, { offered, onSight }: Followed): Promise<Sides> {
  const { shell, json, given } = context
  const { id, destination } = move
  const words = moveWriter(shell, move)
  let printed = ''
  const sides = await waitFor<Sides>(context, {
    id,
    watch: (_client, _id, options) => watchBoth(move, options),
    defaultSeconds: limits.ctlMigrateSecondsDefault,
    words,
    notes: (seen) => moveNotes(seen, move, shell.nowMs()),
    isOver: (seen) => {
      onSight(seen)
      const line = JSON.stringify(lineOf(seen, move))
      if (json && line !== printed) shell.stdout.write(`${line}\n`)
      printed = line
      if (isEndedWithout(seen, offered)) return true
      if (given.isSet('fail-on-error')) refuseTrouble(seen, offered)
      return hasArrived(seen)
    },
    missed: `is not at ${hostOf(destination)}`,
    standing: (seen) => ({
      words: stageWords(seen, move),
      advice: [],
      onwards: isReleased(seen) ? FOLLOW_AGAIN : undefined,
    }),
    onwards: `${FOLLOW_AGAIN}, or vmhostctl vm migrate ${id} --cancel to keep the guest where it is`,
  })
  if (sides !== undefined && isEndedWithout(sides, offered)) throw await endOf(context, sides, move, offered)
  if (sides !== undefined) return sides
  throw new CtlError(`${id} was deleted at ${hostOf(destination)} on its way`, {
    code: 'gone',
    status: exitStatus.failed,
  })
}

const FOLLOW_AGAIN = 'the hosts continue; run the command again to follow'

/** Returns whether the guest belongs to the destination, so that nothing keeps it at the source. */
const isReleased = (sides: Sides): boolean =>
  departureOf(sides)?.stage === 'released' || arrivalOf(sides)?.stage === 'released'

/** Returns whether the migration has ended without the guest. */
function isEndedWithout(sides: Sides, { migrationId }: Offered): boolean {
  const departure = departureOf(sides)
  const arrival = arrivalOf(sides)
  const isWithdrawn = departure?.migration_id === migrationId && departure.stage === 'withdrawn'
  return isWithdrawn || (arrival?.migration_id === migrationId && arrival.stage === 'refused')
}

/** Returns the error for a migration that has ended without the guest. */
async function endOf(
  context: Context,
  sides: Sides,
  move: Move,
  { migrationId }: Offered,
): Promise<CtlError> {
  const { id, source, destination } = move
  // The source knows why, and the destination may be seen first.
  const here = await lookAt(source, id).catch(() => sides.here)
  const departure = departureOf({ here })
  const withdrawn = departure?.migration_id === migrationId ? departure.withdrawn_because : undefined
  const there =
    withdrawn === 'aborted' ? await lastSightOf(context, destination, { id, seen: sides.there }) : sides.there
  const because = withdrawn ?? arrivalOf({ there })?.refused_because
  return new CtlError(
    `${id} ${keptWords({ here }, source)}: the migration has ended${because === undefined ? '' : ` (${because})`}`,
    {
      code: there?.observed.fault?.code ?? 'migration_ended',
      status: exitStatus.failed,
      advice: [
        ...endWords(there, hostOf(destination)),
        `run the command again to begin a new migration${there === undefined ? '' : '; it first removes what this one has left there'}`,
      ],
    },
  )
}

function endWords(there: Vm | undefined, host: string): readonly string[] {
  if (there === undefined) return [`its record at ${host} was deleted`]
  const { state, error } = there.observed
  if (state === 'deleting') return [`its record at ${host} is being deleted`]
  return error === undefined ? [] : [`${host} says: ${error}`]
}

/**
 * Looks at a destination that has given a VM up until it says why: its source hears of that first. After a bound, or if
 * it does not answer, returns what was seen last; undefined if it has no record of the VM any more.
 */
async function lastSightOf(
  { shell }: Context,
  { client }: Daemon,
  { id, seen }: { readonly id: string; readonly seen: Vm | undefined },
): Promise<Vm | undefined> {
  const over = new AbortController()
  const { sleep, monotonicMs } = shell
  void abortAfter(over, limits.ctlMigrationEndMs, { shell })
  let last = seen
  try {
    for await (const sight of watchVm(client, id, {
      signal: over.signal,
      sleep,
      monotonicMs,
      wasThere: true,
    })) {
      if (sight.kind === 'gone') return undefined
      if (sight.kind === 'there') last = sight.seen
      if (last !== undefined && saysWhy(last)) return last
    }
  } catch {
    // The time is up, or the host is away.
  } finally {
    over.abort()
  }
  return last
}

const saysWhy = ({ observed: { state, arrival, fault } }: Vm): boolean =>
  state === 'deleting' || (arrival?.stage === 'refused' && fault?.code === 'migration_refused')

/** Throws on an error of a host. One from before the request does not count. */
function refuseTrouble({ here, there }: Sides, { earlier }: Offered): void {
  const isThere = there !== undefined && isInTrouble(there, earlier)
  const isHere = here !== undefined && isInTrouble(here)
  const troubled = isThere ? there : isHere ? here : undefined
  if (troubled === undefined) return
  const { error = '', fault } = troubled.observed
  throw new CtlError(`${troubled.id}: ${error}`, {
    code: fault?.code ?? 'failed',
    status: exitStatus.failed,
    advice: ['the hosts keep trying; run the command again to follow'],
  })
}

/**
 * Yields what both hosts have of a VM once both have answered, and after each change at one of them, until the
 * destination has it no more. Throws CtlError if a host refuses.
 */
async function* watchBoth(
  { source, destination, id }: Move,
  options: WatchOptions,
): AsyncGenerator<Sight<Sides>> {
  const over = new AbortController()
  const signal = AbortSignal.any([options.signal, over.signal])
  const events: (Event | { readonly thrown: unknown })[] = []
  let news = Promise.withResolvers<void>()
  const watch = async (side: Event['side'], daemon: Daemon): Promise<void> => {
    try {
      for await (const sight of watchVm(daemon.client, id, { ...options, signal, wasThere: true })) {
        events.push({ side, sight })
        news.resolve()
      }
    } catch (error) {
      events.push({ thrown: signal.aborted ? signal.reason : daemon.failed(error) })
      news.resolve()
    }
  }
  void watch('here', source)
  void watch('there', destination)
  let sides: Sides = {}
  try {
    for (;;) {
      await news.promise
      news = Promise.withResolvers()
      for (const event of events.splice(0)) {
        if ('thrown' in event) throw event.thrown
        const { side, sight } = event
        if (sight.kind === 'silent') yield sight
        else if (sight.kind === 'gone' && side === 'there') return yield sight
        else {
          sides = { ...sides, [side]: sight.kind === 'gone' ? undefined : sight.seen }
          // One host alone does not show how far the move is.
          if ('here' in sides && 'there' in sides) yield { kind: 'there', seen: sides, etag: '' }
        }
      }
    }
  } finally {
    over.abort()
  }
}

type Event = { readonly side: 'here' | 'there'; readonly sight: Sight<Vm> }
