import { changeVm, DRY_RUN_OPTION, dryRunQuery, requireOne } from './change.ts'
import { usageError } from '../ctl-error.ts'
import { given as present } from '../../lib/given.ts'
import { showSpan } from '../../lib/shown-units.ts'
import { ago } from '../text.ts'
import { parseSeconds } from '../units.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Command, Context, Option } from '../command.ts'
import type { Fact } from '../text.ts'
import type { paths } from '../../client/schema.d.ts'

const POLICIES = ['always', 'on_failure', 'never'] as const
type SetExit = paths['/v1/vms/{id}/exit']['put']['requestBody']['content']['application/json']

/** The word for a VM that no time deletes. */
const STAYS = 'never'

/** Options for what follows from the end of the guest; creation has the same. */
export const EXIT_OPTIONS: readonly Option[] = [
  {
    name: 'restart',
    value: 'POLICY',
    help: 'start it again when its guest ends by itself: always (the default), on_failure or never',
    completes: POLICIES,
  },
  {
    name: 'delete-after',
    value: 'TIME',
    help: 'delete it when it has been stopped for this long, such as 1h; never: keep it',
    check: (text, option) => void parseDeleteAfter(text, option),
  },
  {
    name: 'delete-on-exit',
    value: 'YES-OR-NO',
    help: 'yes: delete it when its guest has ended and is not started again',
    completes: ['yes', 'no'],
  },
]

/** Parses a time, or the word for none. Elsewhere 0 switches a time off; here it would delete VMs, so it is refused. */
function parseDeleteAfter(text: string, what: string): number | null {
  if (text === STAYS) return null
  const seconds = parseSeconds(text, what)
  if (seconds > 0) return seconds
  throw usageError(
    `${what} ${text} would delete it as soon as it stops`,
    'write 1s if you want that, or never to keep it',
  )
}

/** Returns the members that the options set. */
export function givenExit({ given }: Pick<Context, 'given'>): SetExit {
  const policy = POLICIES.find((one) => one === given.text('restart'))
  const after = given.text('delete-after')
  const word = given.text('delete-on-exit')
  return {
    ...present({ restart_policy: policy }),
    ...(after === undefined ? {} : { delete_after_seconds: parseDeleteAfter(after, '--delete-after') }),
    ...(word === undefined ? {} : { delete_on_exit: word === 'yes' }),
  }
}

export const exitCommand: Command = {
  words: ['vm', 'exit'],
  summary: 'set what follows when the guest ends, and when a stopped VM is deleted',
  description:
    'Options that are not given change nothing. To start a guest that has already ended, use vm start. A guest that ' +
    'reboots itself always continues. A VM that is already stopped is deleted at once if its time is over.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [...EXIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['job-1 --restart on_failure', 'a job: done when it powers off, started again when it panics'],
    ['sandbox-1 --restart never --delete-on-exit yes', 'nothing of it is left when it powers off'],
    ['web-1 --delete-after 24h', 'deleted a day after it was stopped'],
  ],
  run: (context) => {
    requireOne(context, EXIT_OPTIONS)
    const params = { path: { id: context.given.operand }, query: dryRunQuery(context) }
    const body = givenExit(context)
    return changeVm(context, context.client().PUT('/v1/vms/{id}/exit', { params, body }))
  },
}

/** The number of lines of its console that are shown of a guest that ended; --json has all that were kept. */
const LAST_LINES = 5

/** Returns facts about the ends of a guest. */
export function exitFacts({ desired, observed }: Vm, nowMs: number): readonly Fact[] {
  const { restart_policy: policy, delete_after_seconds: seconds, delete_on_exit: onExit } = desired
  const { last_exit: last, restarts } = observed
  const deletions = [
    ...(onExit === true ? ['when its guest has ended'] : []),
    ...(seconds === undefined ? [] : [`${showSpan(seconds * 1000)} after it was stopped`]),
  ]
  return [
    ['restart', policy?.replace('_', ' ')],
    ['deletion', deletions.length === 0 ? undefined : deletions.join(', or ')],
    ['restarts', restarts === undefined ? undefined : String(restarts)],
    ['last exit', last && `${ago(last.at, nowMs)}: ${last.detail}`],
    ...(last?.console ?? [])
      .slice(-LAST_LINES)
      .map((line, at) => [at === 0 ? 'last lines' : '', line] as const),
  ]
}
