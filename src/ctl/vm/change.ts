import { answered } from '../../client/api-client.ts'
import { causeFirst } from '../cause-first.ts'
import { exitStatus } from '../exit-status.ts'
import { printable } from '../../lib/printable.ts'
import { waitForVm } from './wait-for-vm.ts'
import { generationWords, isSavedOrWaking, isSettled } from './vm-words.ts'
import type { Answered, Vm } from '../../client/api-client.ts'
import type { Context, Option } from '../command.ts'
import type { Goal } from './wait-for-vm.ts'
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
type Terms = {
  /** The goal of --wait. */
  readonly goal?: Goal
  /** The daemon retries at once what failed, although nothing changes. */
  readonly triesAgain?: boolean
  /** Parts of the request that the daemon's answer does not show. */
  readonly unshown?: string
}

/** Sends a change of one VM, waits for it if asked to, and shows the result. */
export async function changeVm(context: Context, call: VmCall, terms: Terms = {}): Promise<ExitStatus> {
  const { goal = 'settled' } = terms
  const answer = await answered<Vm>(call)
  const { id } = answer.data
  if (answer.data.dry_run !== undefined) showDryRun(context, answer.data, terms)
  else if (context.given.isSet('wait'))
    showWaited(context, id, await waitForVm(context, id, goal, { wasThere: true }))
  else if (answer.status === 200 && typeof goal === 'object' && isSavedOrWaking(answer.data))
    showAsked(context, answer.data)
  else showTaken(context, answer, terms)
  return exitStatus.done
}

function showTaken({ json, answer, say }: Context, { data: vm, status }: Answered<Vm>, terms: Terms): void {
  const { goal } = terms
  if (json) answer(vm)
  else if (status === 200) say(`${vm.id}: nothing to change${troubleWords(vm, terms)}`)
  // This changed labels or protection, and the host has no work to do.
  else if (isSettled(vm) && goal !== 'gone') say(`${vm.id}: changed`)
  else {
    const wait = `vmhostctl vm wait ${vm.id}${goal === 'gone' ? ' --for gone' : ''}`
    say(`${vm.id}: taken; generation ${generationWords(vm)}. To see it through: ${wait}`)
  }
}

/** Shows that the wake was requested and the guest is not back yet. */
function showAsked({ json, answer, say }: Context, vm: Vm): void {
  if (json) answer(vm)
  else
    say(
      `${vm.id}: ${vm.observed.state}, and asked to wake. To see it through: vmhostctl vm wait ${vm.id} --for running`,
    )
}

/** Says that the daemon still works on an error, although the request changed nothing. */
function troubleWords({ id, observed: { error } }: Vm, { triesAgain = false }: Terms): string {
  if (error === undefined) return ''
  const cause = printable(causeFirst(error))
  if (!triesAgain) return `; the daemon goes on trying: ${cause}`
  return `; the daemon tries again now what failed: ${cause}. To see it through: vmhostctl vm wait ${id}`
}

function showWaited({ json, answer, say }: Context, id: string, vm: Vm | undefined): void {
  if (json) answer(vm ?? { id, gone: true })
  else say(vm === undefined ? `${id}: gone` : settledWords(vm))
}

export function settledWords(vm: Vm): string {
  const { state, error } = vm.observed
  const but = error === undefined ? '' : `, with an error since: ${printable(error)}`
  return `${vm.id}: ${state}, generation ${generationWords(vm)}${isSettled(vm) ? but : ''}`
}

function showDryRun({ json, answer, say }: Context, vm: Vm, { unshown }: Terms): void {
  if (json) {
    answer(vm)
    return
  }
  const { changed = false, changes = [], plan } = vm.dry_run ?? {}
  say(changed ? `${vm.id}: would be taken, and change` : `${vm.id}: nothing would change`)
  for (const { pointer, from, to } of changes)
    for (const line of changeLines(pointer, from, to)) say(`  ${line}`)
  if (unshown !== undefined) say(`  and, which no answer shows: ${unshown}`)
  if (plan !== undefined) say(`\nThe host would then:\n${plan.text.trimEnd().replaceAll(/^/gm, '  ')}`)
}

/** Returns a line for each member of a new object, and one line for a removed object. */
function changeLines(pointer: string, from: unknown, to: unknown): readonly string[] {
  if (from === undefined && typeof to === 'object' && to !== null && !Array.isArray(to))
    return Object.entries(to).flatMap(([name, value]) => changeLines(`${pointer}/${name}`, undefined, value))
  if (pointer === '' && to === undefined) return ['all of it: nothing is left']
  return [`${pointer}: ${shown(from)} → ${shown(to)}`]
}

const shown = (value: unknown): string => (value === undefined ? 'nothing' : printable(JSON.stringify(value)))
