import { limits } from '../config/limits.ts'
import { judgeExit } from '../core/status/exit.ts'
import { deletionDueMs, isFinal } from '../core/vm/exit-policy.ts'
import { isLeaving } from '../core/vm/leaving.ts'
import { stoppedLeftMs } from './remembered.ts'
import { fail, observed, write } from './progress.ts'
import type { LaunchFinding } from '../core/status/launch.ts'
import type { LastExit } from '../core/vm/last-exit.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Next, Pass } from './context.ts'

type Lost = Extract<LaunchFinding, { readonly kind: 'lost' }>
type Exited = Extract<LaunchFinding, { readonly kind: 'exited' }>

/** Records an end of the guest that was not requested: it is started again at once, or later, or stays ended. */
export function noteExit(pass: Pass, found: Exited): Next {
  const { record, host, log } = pass
  const exit = judgeExit(found, outputOf(pass), host.clock.now())
  const { cause, because, ranMs } = exit
  log.info({ cause, because, ran_ms: ranMs }, 'guest ended by itself')
  if (isFinal(record, cause)) {
    const { fault: _over, ...shown } = observed(withExit(pass, exit, false), 'stopping')
    const endedAtPower = record.powerGeneration
    write(pass, { observed: { ...shown, endedAtPower }, launch: null, exitStreak: 0 })
    return { kind: 'again' }
  }
  const counted = withExit(pass, exit, true)
  const exitStreak = ranMs < limits.stableAfterMs ? record.exitStreak + 1 : 1
  if (cause === 'rebooted' && exitStreak <= limits.rebootsInRowFree) {
    // What was wrong may have been that guest, such as a tap that its monitor had just closed.
    const { fault: _over, ...shown } = observed(counted, 'starting')
    write(pass, { observed: shown, launch: null, exitStreak })
    return { kind: 'again' }
  }
  const failure = {
    step: 'unit.run',
    code: 'vm_exited',
    retry: 'backoff',
    message: `${because} (it ran ${(ranMs / 1000).toFixed(1)} s)`,
    attemptsBefore: exitStreak - 1 - (cause === 'rebooted' ? limits.rebootsInRowFree : 0),
  } as const
  return fail(counted, failure, { launch: null, exitStreak })
}

/** Records that the guest went with its host. It did not fail, so it is started as after any boot. */
export function noteLost(pass: Pass, found: Lost): Next {
  const exit = judgeExit(found, outputOf(pass), pass.host.clock.now())
  const { cause, because } = exit
  pass.log.info({ cause, because }, 'guest lost with its host')
  const shown = observed(withExit(pass, exit, false), pass.record.observed.state)
  write(pass, { observed: shown, launch: null })
  return { kind: 'again' }
}

function withExit(pass: Pass, lastExit: LastExit, isStartedAgain: boolean): Pass {
  const { record } = pass
  const { restarts = 0 } = record.observed
  const counted = isStartedAgain ? { restarts: restarts + 1 } : {}
  return { ...pass, record: { ...record, observed: { ...record.observed, ...counted, lastExit } } }
}

/** Returns what the guest wrote to its console since its start. */
function outputOf({ record, host }: Pass): Uint8Array {
  const output = host.consoles.lastSession(record.id)?.output
  if (output === undefined) return new Uint8Array()
  const from = record.launch?.consoleFrom ?? 0
  // A session that began since has no output of before.
  return output.since(from > output.end ? 0 : from).bytes
}

/**
 * Deletes a settled VM whose time has come, in the operation that asked for this. `now` is the record after this pass.
 * Returns the milliseconds until then, or undefined if the VM stays.
 */
export function deleteWhenDue(pass: Pass, now: VmRecord): number | undefined {
  const { store, host, record, log } = pass
  const { state, sinceMs } = now.observed
  if (state !== 'stopped') return undefined
  const stopped = pass.stopped.note(now.id, sinceMs, host.clock)
  // A request that came during this pass is seen by the next one.
  if (now.generations.desired !== record.generations.desired || isLeaving(now)) return undefined
  const dueMs = deletionDueMs(now)
  if (dueMs === undefined) return undefined
  const leftMs = stoppedLeftMs(stopped, dueMs - sinceMs, host.clock)
  if (leftMs > 0) return leftMs
  const nowMs = host.clock.now()
  store.vms.changeDesired(now.id, { deleting: true, operationId: now.operationId, nowMs })
  log.info({ stopped_ms: Math.max(0, nowMs - sinceMs) }, 'deletion due')
  return 0
}
