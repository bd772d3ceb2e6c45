import { answered } from '../../client/api-client.ts'
import { watchMaintenance } from '../../client/watch.ts'
import { limits } from '../../config/limits.ts'
import { given as present } from '../../lib/given.ts'
import { CtlError, usageError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { parseSeconds } from '../units.ts'
import { boundOptions, waitFor } from '../wait.ts'
import { parseSourceUrl } from '../migrate/offer.ts'
import { parseLabel } from '../vm/settings.ts'
import { isSameFault } from '../vm/vm-words.ts'
import { REASON_OPTION, reasonOf } from './cordon.ts'
import { moveAway } from './move-away.ts'
import { leftWords } from './maintenance-words.ts'
import type { components } from '../../client/schema.d.ts'
import type { Command, Context } from '../command.ts'
import type { Maintenance } from './maintenance-words.ts'

type Drain = NonNullable<components['schemas']['SetMaintenance']['drain']>

export const drainCommand: Command = {
  words: ['host', 'drain'],
  summary: 'empty the host: its guests come to rest, or move to other hosts',
  description:
    'The host is cordoned, and its guests that run or are paused are saved, or end with --guests stop. Nothing starts or ' +
    'wakes then, not even after a boot of the host. The desired state of each VM does not change: vmhostctl host uncordon ' +
    'brings the same guests back. With --to the VMs move instead, each as with vmhostctl vm migrate, and the host is only ' +
    'cordoned; with --guests as well, the guests that did not move then come to rest, and those of a drained host do not ' +
    'begin to move. Interrupting this command is safe: run the same command again to continue.',
  options: [
    {
      name: 'to',
      value: 'PROFILE',
      many: true,
      help: 'move the VMs to the host of this profile; with several, each to the one with the most free memory that takes it',
      completes: 'file',
    },
    {
      name: 'guests',
      value: 'WAY',
      help: 'sleep: they are saved, and continue where they were (the default); stop: they end, and boot again',
      completes: ['sleep', 'stop'],
    },
    {
      name: 'grace',
      value: 'TIME',
      help: `with --guests stop: how long a guest may take to end by itself (${limits.drainGraceSecondsDefault} s)`,
      check: parseSeconds,
    },
    {
      name: 'at-once',
      value: 'NUMBER',
      help: `how many guests come to rest, or VMs move, at the same time (${limits.drainAtOnceDefault})`,
      check: parseAtOnce,
    },
    {
      name: 'label',
      value: 'KEY=VALUE',
      many: true,
      help: 'with --to: only VMs with this label move',
      check: parseLabel,
      needs: 'to',
    },
    { name: 'cold', help: 'with --to: each guest is stopped, and only its disk moves', needs: 'to' },
    {
      name: 'source-url',
      value: 'URL',
      help: 'with --to: where the other hosts find this one, as for vmhostctl vm migrate',
      check: parseSourceUrl,
      needs: 'to',
    },
    REASON_OPTION,
    ...boundOptions(limits.ctlDrainSecondsDefault, {
      words: 'with --to: for the moves',
      seconds: limits.ctlMigrateSecondsDefault,
    }),
  ],
  examples: [
    ['', 'before a reboot into another kernel: each guest keeps its memory'],
    ['--guests stop --grace 2m --at-once 5', 'before a change that saved guests would not survive'],
    [
      '--to host-2.toml --to host-3.toml',
      'before work that takes days: every VM moves, with its memory and its disk',
    ],
    [
      '--to host-2.toml --label tier=web --guests sleep',
      'some move; the others, and those that cannot move, are saved',
    ],
    ['--timeout 0 || echo not empty yet', 'requests it, and looks once'],
  ],
  run: async (context) => {
    const drain = drainOf(context)
    const isToMove = context.given.texts('to').length > 0
    const moves = isToMove ? await moveAway(context, drain) : exitStatus.done
    if (isToMove && (drain.guests === undefined || moves === exitStatus.unreachable)) return moves
    const body = { state: 'drained' as const, drain, ...(await reasonOf(context)) }
    const { data: asked } = await answered(context.client().PUT('/v1/maintenance', { body }))
    const maintenance = await waitUntilEmpty(context, asked)
    context.print(maintenance, () => 'drained: no guest is left')
    return moves
  },
}

function drainOf({ given }: Context): Drain {
  const [guests, grace, atOnce] = [given.text('guests'), given.text('grace'), given.text('at-once')]
  if (grace !== undefined && guests !== 'stop')
    throw usageError('--grace is for guests that stop', 'give --guests stop with it')
  return present({
    guests: guests as Drain['guests'],
    grace_seconds: grace === undefined ? undefined : parseSeconds(grace, '--grace'),
    at_once: atOnce === undefined ? undefined : parseAtOnce(atOnce, '--at-once'),
  })
}

/** Parses a number of guests. Throws a usage error. */
function parseAtOnce(text: string, what: string): number {
  const number = Number(text)
  if (/^\d{1,4}$/.test(text) && number >= 1 && number <= limits.drainAtOnceMax) return number
  throw usageError(`${what} ${text} is not a number from 1 to ${limits.drainAtOnceMax}`)
}

/** Waits until no guest is left, and shows which ones are. `asked` is the answer to the request. Throws CtlError. */
async function waitUntilEmpty(context: Context, asked: Maintenance): Promise<Maintenance | undefined> {
  return waitFor<Maintenance>(context, {
    id: 'host',
    watch: (client, _id, options) => watchMaintenance(client, options),
    defaultSeconds: limits.ctlDrainSecondsDefault,
    words: (seen) => `draining: ${leftWords(seen)}`,
    notes: ({ left }) =>
      left.map(({ vm_id: id, error }) => ({
        about: id,
        ...(error === undefined ? { news: '' } : { news: error, text: `${id}: ${error}` }),
      })),
    isOver: (seen) => {
      if (context.given.isSet('fail-on-error')) refuseError(seen, asked)
      if (seen.state !== 'drained') throw putBack(seen)
      return seen.observed_state === 'drained'
    },
    missed: 'is not drained',
    standing: (seen) => ({
      words: leftWords(seen),
      advice: seen.left.flatMap(({ vm_id: id, error }) => (error === undefined ? [] : [`${id}: ${error}`])),
    }),
    onwards:
      'the host continues: run the command again to follow, or vmhostctl host uncordon to put it back into service',
  })
}

type LeftGuest = Maintenance['left'][number]

/** Throws on an error of a guest that is left. One that the guest had when the drain was requested does not count. */
function refuseError({ left }: Maintenance, asked: Maintenance): void {
  const earlier = new Map(asked.left.map((guest) => [guest.vm_id, guest]))
  const troubled = left.find(
    (guest) => guest.error !== undefined && !isSameTrouble(guest, earlier.get(guest.vm_id)),
  )
  if (troubled === undefined) return
  throw new CtlError(`${troubled.vm_id}: ${troubled.error ?? ''}`, {
    code: 'failed',
    status: exitStatus.failed,
    advice: ['the host keeps trying; vmhostctl host status shows it'],
  })
}

/** Returns whether nothing has failed since. */
const isSameTrouble = ({ error, fault }: LeftGuest, earlier: LeftGuest | undefined): boolean =>
  error === earlier?.error && isSameFault(fault, earlier?.fault)

const putBack = ({ state }: Maintenance): CtlError =>
  new CtlError(`the host is ${state} again, by another request`, {
    code: 'failed',
    status: exitStatus.failed,
    advice: ['vmhostctl events shows when'],
  })
