import { watchVm } from '../../client/watch-vm.ts'
import { limits } from '../../config/limits.ts'
import { errorChain } from '../../log/error-chain.ts'
import { CtlError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { Progress, silentProgress } from '../progress.ts'
import { parseSeconds, showSpan } from '../units.ts'
import { errorWords, isSettled, progressWords } from './words.ts'
import type { Sight } from '../../client/watch-vm.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Context, Option } from '../command.ts'

const BOUND_OPTIONS: readonly Option[] = [
  {
    name: 'timeout',
    value: 'TIME',
    help: `give up after so long, as 90s, 10m or 0 to look once (${showSpan(limits.ctlWaitSecondsDefault * 1000)})`,
    check: parseSeconds,
  },
  {
    name: 'fail-on-error',
    help: 'give up as soon as the daemon reports an error; without it the wait goes on, as the daemon does',
  },
]

/** Of commands that change a VM. */
export const WAIT_OPTIONS: readonly Option[] = [
  { name: 'wait', help: 'until the host is as desired, and show how it gets there' },
  ...BOUND_OPTIONS,
]

/** Of the command whose business is waiting. */
export const waitOnlyOptions = BOUND_OPTIONS

/** What a wait is for: the generations meet; so do they, and the VM is in a state; or it is gone. */
export type Goal = 'settled' | 'gone' | { readonly state: Vm['observed']['state'] }

function isReached(vm: Vm, goal: Goal): boolean {
  if (goal === 'gone' || !isSettled(vm)) return false
  return goal === 'settled' || vm.observed.state === goal.state
}

/** How a wait ended well: the settled VM, or undefined where it is gone. */
export type Waited = Vm | undefined

const TIMED_OUT = Symbol('timed out')

/**
 * Until a VM has come to its goal or is gone. Throws CtlError with status 3 past the timeout, and with status 1 on
 * an error where the caller asked for that.
 */
export async function waitForVm(context: Context, id: string, goal: Goal): Promise<Waited> {
  const { shell, given, json } = context
  const timeoutMs =
    parseSeconds(given.text('timeout') ?? String(limits.ctlWaitSecondsDefault), '--timeout') * 1000
  const progress = json ? silentProgress : new Progress(shell)
  const over = new AbortController()
  const options = { signal: over.signal, sleep: shell.sleep, monotonicMs: shell.monotonicMs }
  let last: Vm | undefined
  let lastError: string | undefined
  try {
    for await (const sight of watchVm(context.client(), id, options)) {
      if (last === undefined) void raiseAfter(over, timeoutMs, context)
      tell(progress, id, sight)
      if (sight.kind === 'gone') return undefined
      if (sight.kind === 'silent') continue
      last = sight.vm
      const { error } = last.observed
      if (error !== undefined && error !== lastError)
        progress.note(`${id}: ${errorWords(last, shell.nowMs())}`)
      // The same again after an attempt is no news.
      lastError = error ?? lastError
      if (given.isSet('fail-on-error')) refuseError(last)
      if (isReached(last, goal)) return last
    }
    return undefined
  } catch (error) {
    if (error !== TIMED_OUT) throw error
    throw timedOut(id, last, { timeoutMs, goal })
  } finally {
    over.abort()
    progress.end()
  }
}

/** The bound begins with the first answer: no answer at all is another failure. */
async function raiseAfter(over: AbortController, ms: number, { shell }: Context): Promise<void> {
  try {
    await shell.sleep(ms, over.signal)
  } catch {
    // The wait ended first.
    return
  }
  over.abort(TIMED_OUT)
}

function tell(progress: Pick<Progress, 'status'>, id: string, sight: Sight): void {
  if (sight.kind === 'vm') progress.status(progressWords(sight.vm))
  else if (sight.kind === 'gone') progress.status(`${id}: gone`)
  else progress.status(`${id}: no answer, trying again: ${errorChain(sight.because)}`)
}

/** An error from before the newest change says nothing about that. */
function refuseError({ id, observed, generations }: Vm): void {
  const { error, fault } = observed
  if (error === undefined || (fault !== undefined && fault.generation < generations.desired)) return
  throw new CtlError(`${id}: ${error}`, {
    code: fault?.code ?? 'failed',
    status: exitStatus.failed,
    advice: [
      'the daemon goes on trying; when the cause is gone it heals by itself',
      `vmhostctl vm plan ${id} tells what it will do`,
    ],
  })
}

function timedOut(
  id: string,
  vm: Vm | undefined,
  { timeoutMs, goal }: { readonly timeoutMs: number; readonly goal: Goal },
): CtlError {
  const where = vm === undefined ? '' : `; ${progressWords(vm).slice(id.length + 2)}`
  return new CtlError(`${id} is not ${goalWords(goal)} after ${showSpan(timeoutMs)}${where}`, {
    code: 'wait_timed_out',
    status: exitStatus.timedOut,
    advice: [
      ...(vm?.observed.error === undefined ? [] : [`the reason: ${vm.observed.error}`]),
      `the daemon goes on: vmhostctl vm wait ${id} waits on, vmhostctl vm plan ${id} tells what comes next`,
    ],
  })
}

function goalWords(goal: Goal): string {
  if (typeof goal === 'object') return goal.state
  return goal === 'settled' ? 'as desired' : goal
}
