import { watchVm } from '../../client/watch.ts'
import { limits } from '../../config/limits.ts'
import { faultOf } from '../advice.ts'
import { isEnded, isSettled } from '../../client/vm-words.ts'
import { CtlError } from '../ctl-error.ts'
import { printable } from '../../lib/text.ts'
import { exitStatus } from '../exit-status.ts'
import { boundOptions, waitFor, waitOptions } from '../wait.ts'
import { errorWords, generationWords, isInTrouble, progressWords, readyWords } from './vm-words.ts'
import { eachNamed } from '../several.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Context, Command } from '../command.ts'
import type { Note } from '../wait.ts'

/** Options of the command that only waits. */
const waitOnlyOptions = boundOptions(limits.ctlWaitSecondsDefault)

/** Options of commands that change a VM. */
export const WAIT_OPTIONS = waitOptions(
  'until the host has reached the desired state, and show the progress',
  waitOnlyOptions,
)

/**
 * The goal of a wait: the generations are equal; they are equal and the VM is in a state; they are equal and its
 * guest is ready; or the VM is gone.
 */
export type Goal = 'settled' | 'gone' | 'ready' | { readonly state: Vm['observed']['state'] }

function isReached(vm: Vm, goal: Goal): boolean {
  if (goal === 'gone' || !isSettled(vm)) return false
  if (goal === 'ready') return vm.observed.state === 'running' && vm.observed.guest?.ready_since !== undefined
  return goal === 'settled' || vm.observed.state === goal.state
}

type Until = {
  readonly goal: Goal
  /** Whether the daemon has just shown the VM. */
  readonly wasThere: boolean
  /** Whether the wait also ends well if the VM is deleted meanwhile. */
  readonly mayBeGone: boolean
  /** The fault that the VM had when the daemon was asked to try again. */
  readonly earlier?: Vm['observed']['fault'] | undefined
  /** Whether the request started the guest: one that ends for good then ends the wait too. */
  readonly startsGuest?: boolean
  /** When the time began that several waits share, by the monotonic clock. */
  readonly beganMs?: number | undefined
}

/**
 * Waits until a VM has reached its goal; returns undefined if it is gone. Throws CtlError with status 3 after the
 * timeout, and with status 1 on an error if the caller asked for that.
 */
function waitForVm(
  context: Context,
  id: string,
  { goal, wasThere, earlier, startsGuest = false, beganMs }: Until,
): Promise<Vm | undefined> {
  const { shell, given } = context
  const words = (vm: Vm): string => `${progressWords(vm)}${goal === 'ready' ? `, ${readyWords(vm)}` : ''}`
  const steadyWords = withLastWait(words)
  return waitFor<Vm>(context, {
    id,
    watch: watchVm,
    wasThere,
    beganMs,
    defaultSeconds: limits.ctlWaitSecondsDefault,
    words: steadyWords,
    notes: (vm) => errorNotes(vm, shell.nowMs()),
    isOver: (vm) => {
      if (given.isSet('fail-on-error')) refuseError(vm, earlier)
      if (startsGuest) refuseEnd(vm)
      return isReached(vm, goal)
    },
    missed: `is not ${goalWords(goal)}`,
    standing: (vm) => ({
      words: words(vm).slice(id.length + 2),
      advice: vm.observed.error === undefined ? [] : [`the reason: ${vm.observed.error}`],
      onwards: whyEndless(vm, goal),
    }),
    onwards: `the daemon continues: vmhostctl vm wait ${id}${goalOption(goal)} waits again, vmhostctl vm plan ${id} shows what comes next`,
  })
}

/**
 * Returns words that keep what a stopping VM waited for until something else changes. Each time its guest is asked to
 * end, the wait is over for a moment.
 */
function withLastWait(words: (vm: Vm) => string): (vm: Vm) => string {
  let last = { bare: '', shown: '' }
  return (vm) => {
    const { waiting_for: _waiting, memory_queue: _queue, ...observed } = vm.observed
    const bare = words({ ...vm, observed })
    const shown = words(vm)
    const goesOn = observed.state === 'stopping' && last.bare === bare
    if (shown !== bare || !goesOn) last = { bare, shown }
    return last.shown
  }
}

/** Says why the daemon does not bring a VM to the goal, and what does; undefined if it may. */
function whyEndless(vm: Vm, goal: Goal): string | undefined {
  const { id, desired, observed } = vm
  const power = powerFor(vm, goal)
  if (power === undefined || observed.state === 'deleting' || observed.state === 'migrated') return undefined
  if (isEnded(vm)) return `its guest ended and is not started again: vmhostctl vm start ${id} starts it`
  if (power !== desired.power) {
    const verb = power === 'running' && desired.power === 'paused' ? 'resume' : VERBS[power]
    return `its power is ${desired.power}: vmhostctl vm ${verb} ${id} ${verb}s it`
  }
  if (goal === 'ready' || (typeof goal === 'object' && goal.state === 'running')) {
    // What it waits for is shown, such as the end of the maintenance of its host.
    if (!isSettled(vm) || observed.state !== 'sleeping' || observed.waiting_for !== undefined)
      return undefined
    return `it sleeps: unless its host is drained, a packet wakes it, and so do vmhostctl vm start ${id} and vmhostctl vm keep-awake ${id} TIME`
  }
  const neverSleeps =
    typeof goal === 'object' && goal.state === 'sleeping' && desired.compute.sleep_after_idle_seconds === 0
  return neverSleeps
    ? `its idle timeout is 0, so it never sleeps: vmhostctl vm resize ${id} --sleep-after TIME changes that`
    : undefined
}

const VERBS = { running: 'start', paused: 'pause', stopped: 'stop' } as const

/** Returns the power that a VM must have for the goal; undefined if it may reach the goal with another. */
function powerFor(
  { desired: { restart_policy: policy } }: Vm,
  goal: Goal,
): Vm['desired']['power'] | undefined {
  if (goal === 'ready') return 'running'
  if (typeof goal !== 'object') return undefined
  const { state } = goal
  if (state === 'paused') return state
  // A guest that is not started again may end by itself.
  if (state === 'stopped') return policy === undefined || policy === 'always' ? state : undefined
  return state === 'running' || state === 'sleeping' ? 'running' : undefined
}

/** Notes an error. The same error after another attempt is not repeated. */
function errorNotes(vm: Vm, nowMs: number): readonly Note[] {
  const { error } = vm.observed
  const text = errorWords(vm, nowMs)
  return error === undefined || text === undefined ? [] : [{ about: 'error', news: error, text }]
}

function refuseError(vm: Vm, earlier: Until['earlier']): void {
  if (!isInTrouble(vm, earlier)) return
  const { id } = vm
  const { error = '', fault } = vm.observed
  throw new CtlError(`${id}: ${error}`, {
    code: fault?.code ?? 'failed',
    status: exitStatus.failed,
    advice: faultAdvice(fault?.code ?? '', `vmhostctl vm plan ${id} shows what it will do`),
  })
}

/** Says what the daemon does about a fault, by its retry class, and last what the user can do, if the code is known. */
function faultAdvice(code: string, plan: string): readonly string[] {
  const entry = faultOf(code)
  const goesOn =
    entry?.retry === 'on-change'
      ? 'the daemon tries again slowly: only another desired state should help'
      : 'the daemon keeps trying, and recovers when the cause is gone'
  return [goesOn, plan, ...(entry === undefined ? [] : [entry.remedy])]
}

/** Throws if the guest ended for good, perhaps before it was seen running. */
function refuseEnd(vm: Vm): void {
  if (!isEnded(vm)) return
  const { id, observed } = vm
  const because = observed.last_exit === undefined ? '' : `: ${observed.last_exit.detail}`
  throw new CtlError(`${id}: its guest ended, and is not started again${because}`, {
    code: 'failed',
    status: exitStatus.failed,
    advice: [`vmhostctl vm get ${id} shows its last lines, and vmhostctl vm start ${id} starts it`],
  })
}

function goalWords(goal: Goal): string {
  if (typeof goal === 'object') return goal.state
  return goal === 'settled' ? 'as desired' : goal
}

/** Returns the option that makes another wait have this goal. */
const goalOption = (goal: Goal): string => (goal === 'settled' ? '' : ` --for ${goalWords(goal)}`)

/** Waits until a VM has reached its goal or is gone, and shows it. Throws CtlError if it is gone and must not be. */
export async function seeThrough(context: Context, id: string, until: Until): Promise<void> {
  const vm = await waitForVm(context, id, until)
  if (vm === undefined && !until.mayBeGone)
    throw new CtlError(`${id} was deleted before it was ${goalWords(until.goal)}`, {
      code: 'gone',
      status: exitStatus.failed,
    })
  const ready = until.goal === 'ready' ? ', ready' : ''
  context.print(vm ?? { id, gone: true }, () =>
    vm === undefined ? `${id}: gone` : printable(`${settledWords(vm)}${ready}`),
  )
}

function settledWords(vm: Vm): string {
  const { state, error } = vm.observed
  const but = error === undefined ? '' : `, with an error since: ${error}`
  return `${vm.id}: ${state}, generation ${generationWords(vm)}${isSettled(vm) ? but : ''}`
}

/** States that a VM can stay in. */
const RESTS = [
  'running',
  'sleeping',
  'paused',
  'stopped',
] as const satisfies readonly Vm['observed']['state'][]

const GOALS = [...RESTS, 'ready', 'gone']

export const waitCommand: Command = {
  words: ['vm', 'wait'],
  summary: 'wait until VMs are as desired, and show the progress',
  description:
    'Ends when the VM has reached its newest generation, or when a VM under deletion is gone. Sleeping and waking do not ' +
    'change the desired state: use --for to wait for them. After a deletion use --for gone, which also succeeds if the VM ' +
    'is already gone. An error of the daemon is shown, and the wait continues, because the daemon keeps trying; with ' +
    '--fail-on-error the wait ends.',
  operand: { placeholder: 'NAME', many: true, completes: 'vm' },
  options: [
    {
      name: 'for',
      value: 'STATE',
      help: 'until it is as desired and in this state, until its guest is ready, or until it is gone',
      completes: GOALS,
    },
    ...waitOnlyOptions,
  ],
  examples: [
    ['web-1', 'until it is as desired, fifteen minutes at most'],
    ['web-1 --timeout 2m --fail-on-error', 'in a script: status 3 after two minutes, 1 at the first error'],
    ['web-1 --for sleeping', 'until it has been idle for long enough, and is saved'],
    ['web-1 --for ready', 'after a start: until its check succeeds, or without one until its agent listens'],
    ['web-1 --for gone', 'after vmhostctl vm rm: until nothing of it is left'],
    ['web-1 --timeout 0', 'whether it is as desired now: status 0 or 3'],
  ],
  run: (context) =>
    eachNamed(context, async (id, beganMs) => {
      const goal = goalOf(context.given.text('for'))
      const mayBeGone = goal === 'gone' || goal === 'settled'
      await seeThrough(context, id, { goal, wasThere: goal === 'gone', mayBeGone, beganMs })
      return exitStatus.done
    }),
}

function goalOf(text: string | undefined): Goal {
  if (text === 'gone' || text === 'ready') return text
  const state = RESTS.find((name) => name === text)
  return state === undefined ? 'settled' : { state }
}
