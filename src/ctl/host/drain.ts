import { answered } from '../../client/api-client.ts'
import { watchMaintenance } from '../../client/watch.ts'
import { limits } from '../../config/limits.ts'
import { given as present } from '../../lib/given.ts'
import { CtlError, usageError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { parseSeconds } from '../units.ts'
import { boundOptions, waitFor } from '../wait.ts'
import { REASON_OPTION, reasonOf } from './cordon.ts'
import { leftWords } from './maintenance-words.ts'
import type { components } from '../../client/schema.d.ts'
import type { Command, Context } from '../command.ts'
import type { Maintenance } from './maintenance-words.ts'

type Drain = NonNullable<components['schemas']['SetMaintenance']['drain']>

export const drainCommand: Command = {
  words: ['host', 'drain'],
  summary: 'bring the guests of the host to rest, and wait until none is left',
  description:
    'The host is cordoned, and its guests that run or are paused are saved, or end with --guests stop. Nothing starts or wakes then, ' +
    'also after a boot of the host. What is desired of each VM stays: vmhostctl host uncordon brings the same guests back. ' +
    'Interrupting is safe: the host goes on, and the same command again shows how far it is.',
  options: [
    {
      name: 'guests',
      value: 'WAY',
      help: 'sleep: they are saved, and go on where they were (as when not given); stop: they end, and boot again',
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
      help: `how many guests come to rest at the same time (${limits.drainAtOnceDefault})`,
      check: parseAtOnce,
    },
    REASON_OPTION,
    ...boundOptions(limits.ctlDrainSecondsDefault),
  ],
  examples: [
    ['', 'before a reboot into another kernel: each guest keeps its memory'],
    ['--guests stop --grace 2m --at-once 5', 'before a change that saved guests would not survive'],
    ['--timeout 0 || echo not empty yet', 'asks for it, and looks once'],
  ],
  run: async (context) => {
    const { client, given } = context
    const body = { state: 'drained' as const, drain: drainOf(context), ...(await reasonOf(context)) }
    await answered(client().PUT('/v1/maintenance', { body }))
    const maintenance = await waitUntilEmpty(context, given.isSet('fail-on-error'))
    context.print(maintenance, () => 'drained: no guest is left')
    return exitStatus.done
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

/** Waits until no guest is left, and shows which ones are. Throws CtlError. */
async function waitUntilEmpty(context: Context, isStrict: boolean): Promise<Maintenance | undefined> {
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
      if (isStrict) refuseError(seen)
      if (seen.state !== 'drained') throw putBack(seen)
      return seen.observed_state === 'drained'
    },
    missed: 'is not drained',
    standing: (seen) => ({
      words: leftWords(seen),
      advice: seen.left.flatMap(({ vm_id: id, error }) => (error === undefined ? [] : [`${id}: ${error}`])),
    }),
    onwards: 'the host goes on: the same command again follows, and vmhostctl host uncordon puts it back',
  })
}

function refuseError({ left }: Maintenance): void {
  const troubled = left.find(({ error }) => error !== undefined)
  if (troubled === undefined) return
  throw new CtlError(`${troubled.vm_id}: ${troubled.error ?? ''}`, {
    code: 'failed',
    status: exitStatus.failed,
    advice: ['the host goes on trying; vmhostctl host status shows it'],
  })
}

const putBack = ({ state }: Maintenance): CtlError =>
  new CtlError(`the host is ${state} again, by another request`, {
    code: 'failed',
    status: exitStatus.failed,
    advice: ['vmhostctl events shows when'],
  })
