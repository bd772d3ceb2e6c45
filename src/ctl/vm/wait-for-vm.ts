import { watchVm } from '../../client/watch.ts'
import { limits } from '../../config/limits.ts'
import { CtlError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { boundOptions, waitFor } from '../wait.ts'
import { errorWords, isSettled, progressWords } from './vm-words.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Context, Option } from '../command.ts'
import type { Note } from '../wait.ts'

/** Options of the command that only waits. */
export const waitOnlyOptions = boundOptions(limits.ctlWaitSecondsDefault)

/** Options of commands that change a VM. */
export const WAIT_OPTIONS: readonly Option[] = [
  { name: 'wait', help: 'until the host is as desired, and show how it gets there' },
  ...waitOnlyOptions,
]

/** The goal of a wait: the generations are equal; they are equal and the VM is in a state; or the VM is gone. */
export type Goal = 'settled' | 'gone' | { readonly state: Vm['observed']['state'] }

function isReached(vm: Vm, goal: Goal): boolean {
  if (goal === 'gone' || !isSettled(vm)) return false
  return goal === 'settled' || vm.observed.state === goal.state
}

/** The result of a wait: the settled VM, or undefined if it is gone. */
export type Waited = Vm | undefined

/**
 * Waits until a VM has reached its goal or is gone. `wasThere` means that the daemon has just shown it. Throws CtlError
 * with status 3 after the timeout, and with status 1 on an error if the caller asked for that.
 */
export function waitForVm(
  context: Context,
  id: string,
  goal: Goal,
  { wasThere }: { readonly wasThere: boolean },
): Promise<Waited> {
  const { shell, given } = context
  return waitFor<Vm>(context, {
    id,
    watch: watchVm,
    wasThere,
    defaultSeconds: limits.ctlWaitSecondsDefault,
    words: progressWords,
    notes: (vm) => errorNotes(vm, shell.nowMs()),
    isOver: (vm) => {
      if (given.isSet('fail-on-error')) refuseError(vm)
      return isReached(vm, goal)
    },
    missed: `is not ${goalWords(goal)}`,
    standing: (vm) => ({
      words: progressWords(vm).slice(id.length + 2),
      advice: vm.observed.error === undefined ? [] : [`the reason: ${vm.observed.error}`],
    }),
    onwards: `the daemon goes on: vmhostctl vm wait ${id} waits on, vmhostctl vm plan ${id} shows what comes next`,
  })
}

/** Notes an error. The same error after another attempt is not repeated. */
function errorNotes(vm: Vm, nowMs: number): readonly Note[] {
  const { error } = vm.observed
  const text = errorWords(vm, nowMs)
  return error === undefined || text === undefined ? [] : [{ about: 'error', news: error, text }]
}

/** Throws on an error. An error from before the newest change says nothing about that change. */
function refuseError({ id, observed, generations }: Vm): void {
  const { error, fault } = observed
  if (error === undefined || (fault !== undefined && fault.generation < generations.desired)) return
  throw new CtlError(`${id}: ${error}`, {
    code: fault?.code ?? 'failed',
    status: exitStatus.failed,
    advice: [
      'the daemon goes on trying; when the cause is gone it heals by itself',
      `vmhostctl vm plan ${id} shows what it will do`,
    ],
  })
}

function goalWords(goal: Goal): string {
  if (typeof goal === 'object') return goal.state
  return goal === 'settled' ? 'as desired' : goal
}
