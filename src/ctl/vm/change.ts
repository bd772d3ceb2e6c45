import { answered } from '../../client/api-client.ts'
import { usageError } from '../ctl-error.ts'
import { causeFirst } from '../../client/cause-first.ts'
import { exitStatus } from '../exit-status.ts'
import { isObject } from '../../lib/parsed-values.ts'
import { printable, printableLines } from '../../lib/text.ts'
import { eachNamed } from '../several.ts'
import { seeThrough } from './wait.ts'
import { isSettled } from '../../client/vm-words.ts'
import { generationWords, hardStopWords, isSavedOrWaking } from './vm-words.ts'
import { ApiProblem } from '../../client/api-problem.ts'
import type { Answered, Vm } from '../../client/api-client.ts'
import type { Context, Option } from '../command.ts'
import type { Goal } from './wait.ts'
import type { ExitStatus } from '../exit-status.ts'

export const DRY_RUN_OPTION: Option = {
  name: 'dry-run',
  help: 'check it and show what would change and what the host would do; store nothing',
}

/** Returns `?dry_run=true` if the user asked for it. */
export const dryRunQuery = ({ given }: Context): { dry_run?: true } =>
  given.isSet('dry-run') ? { dry_run: true } : {}

type VmCall = Parameters<typeof answered<Vm>>[0]

/** The properties of one kind of change. */
export type Terms = {
  /** The goal of --wait. */
  readonly goal?: Goal
  /** The daemon retries at once what failed, although nothing changes. */
  readonly triesAgain?: boolean
  /** Parts of the request that the daemon's answer does not show. */
  readonly unshown?: string
  /** Says why a change has no effect yet; undefined if it has. */
  readonly withoutEffect?: (vm: Vm) => string | undefined
}

/** Sends a change of one VM, waits for it if asked to, and shows the result. */
export async function changeVm(context: Context, call: VmCall, terms: Terms = {}): Promise<ExitStatus> {
  return showChange(context, await answered<Vm>(call), terms)
}

/**
 * Sends a change of each named VM. Then waits for all that were taken, if asked to, within one time. A request that
 * shows its result itself returns nothing.
 */
export async function changeEach(
  context: Context,
  request: (id: string) => Promise<Answered<Vm> | undefined>,
  terms: Terms = {},
): Promise<ExitStatus> {
  const taken = new Map<string, Answered<Vm>>()
  const asked = await eachNamed(context, async (id) => {
    const answer = await request(id)
    if (answer === undefined) return exitStatus.done
    if (!isSeenThrough(context, answer)) return showChange(context, answer, terms)
    taken.set(id, answer)
    return exitStatus.done
  })
  const waited = await eachNamed(
    context,
    (id, beganMs) => showChange(context, taken.get(id) as Answered<Vm>, terms, beganMs),
    [...taken.keys()],
  )
  return asked > waited ? asked : waited
}

const isSeenThrough = ({ given }: Context, { data: vm }: Answered<Vm>): boolean =>
  vm.dry_run === undefined && given.isSet('wait')

/** Waits for a change if asked to, and shows the result. */
async function showChange(
  context: Context,
  answer: Answered<Vm>,
  terms: Terms,
  beganMs?: number,
): Promise<ExitStatus> {
  const { goal = 'settled' } = terms
  const vm = answer.data
  if (isSeenThrough(context, answer))
    await seeThrough(context, vm.id, {
      goal,
      wasThere: true,
      mayBeGone: goal === 'gone' || vm.desired.power === 'stopped',
      earlier: vm.observed.fault,
      startsGuest: typeof goal === 'object',
      beganMs,
    })
  else
    context.print(vm, () =>
      printableLines(
        vm.dry_run === undefined ? takenWords(answer, terms, context.shell.nowMs()) : dryRunWords(vm, terms),
      ),
    )
  return exitStatus.done
}

function takenWords({ data: vm, status }: Answered<Vm>, terms: Terms, nowMs: number): string {
  const { goal, withoutEffect } = terms
  const wait = `To wait for it: vmhostctl vm wait ${vm.id}`
  // The wake was requested, and the guest is not back yet.
  const isOld = status === 200 || isSettled(vm)
  if (isOld && typeof goal === 'object' && isSavedOrWaking(vm))
    return `${vm.id}: ${vm.observed.state}, and asked to wake. ${wait} --for running`
  const hardStop = hardStopWords(vm, nowMs)
  if (status === 200 && hardStop !== undefined)
    return `${vm.id}: nothing to change; it stops hard ${hardStop}. ${wait}`
  if (status === 200) return `${vm.id}: nothing to change${troubleWords(vm, terms)}`
  // This changed nothing that the host has to work on, such as labels.
  if (isSettled(vm) && goal !== 'gone') {
    const because = withoutEffect?.(vm)
    return `${vm.id}: changed${because === undefined ? '' : `; ${because}`}`
  }
  return `${vm.id}: accepted; generation ${generationWords(vm)}. ${wait}${goal === 'gone' ? ' --for gone' : ''}`
}

/** Says that the daemon still works on an error, although the request changed nothing. */
function troubleWords({ id, observed: { error } }: Vm, { triesAgain = false }: Terms): string {
  if (error === undefined) return ''
  const cause = printable(causeFirst(error))
  if (!triesAgain) return `; the daemon keeps trying: ${cause}`
  return `; the daemon now tries again what failed: ${cause}. To wait for it: vmhostctl vm wait ${id}`
}

function dryRunWords({ id, dry_run: run }: Vm, { unshown }: Terms): string {
  const { changed = false, changes = [], plan } = run ?? {}
  return [
    changed ? `${id}: would be accepted, and change` : `${id}: nothing would change`,
    ...changes.flatMap(({ pointer, from, to }) => changeLines(pointer, from, to)).map((line) => `  ${line}`),
    ...(unshown === undefined ? [] : [`  and, not shown in any answer: ${unshown}`]),
    ...(plan === undefined ? [] : [`\nThe host would then:\n${plan.text.replaceAll(/^(?=.)/gm, '  ')}`]),
  ].join('\n')
}

/** Returns a line for each member of a new object, and one line for a removed object. */
function changeLines(pointer: string, from: unknown, to: unknown): readonly string[] {
  if (from === undefined && isObject(to))
    return Object.entries(to).flatMap(([name, value]) => changeLines(`${pointer}/${name}`, undefined, value))
  if (pointer === '' && to === undefined) return ['all of it: nothing is left']
  return [`${pointer}: ${shown(from)} → ${shown(to)}`]
}

const shown = (value: unknown): string => (value === undefined ? 'nothing' : JSON.stringify(value))

/**
 * Number of tries: a busy host changes its VM all the time. After so many changes in between, something else is wrong.
 */
const ATTEMPTS = 5

/**
 * Makes a request that replaces a whole object from options that give only a part of it. Reads the VM, lets `change`
 * make the request, and repeats both if the VM has changed in between. `etag` is for `If-Match`.
 */
export async function fromPresent(
  context: Context,
  id: string,
  change: (vm: Vm, etag: string) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  for (let attempt = 1; ; attempt += 1) {
    const call = context.client().GET('/v1/vms/{id}', { params: { path: { id } } })
    const { data: vm, etag } = await answered(call)
    try {
      return await change(vm, etag)
    } catch (error) {
      const stale = error instanceof ApiProblem && error.code === 'precondition_failed'
      if (!stale || attempt === ATTEMPTS) throw error
    }
  }
}

/** Throws a usage error if none of these options was given. */
export function requireOne({ given }: Context, options: readonly Option[]): void {
  const names = options.map(({ name }) => name)
  if (given.hasAny(names)) return
  throw usageError('there is nothing to change', `give one of ${names.map((name) => `--${name}`).join(', ')}`)
}
