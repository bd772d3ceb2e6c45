import { limits } from '../../config/limits.ts'
import { isSleepingOrWaking } from '../../core/vm/at-rest.ts'
import { abortable } from '../../lib/abortable.ts'
import { err, ok } from '../../lib/result.ts'
import type { SshFailure } from '../../core/console/guest-ssh.ts'
import type { VmId } from '../../core/ids.ts'
import type { ObservedState, VmRecord } from '../../core/vm/record.ts'
import type { Result } from '../../lib/result.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Store } from '../../store/store.ts'

export type AwakenOptions = {
  readonly store: Pick<Store, 'vms' | 'onVmChange'>
  readonly clock: Pick<Clock, 'after'>
  /** Requests a sleeping guest. Returns at once; the record shows the result. */
  readonly wake: (id: VmId) => void
}

type Awakened = Result<
  VmRecord,
  { readonly kind: 'vm_not_running'; readonly state: ObservedState } | SshFailure
>

/**
 * Requests a sleeping guest, and waits until it is back or its wake has failed. Returns an awake VM as it is. Rejects
 * with the signal's reason on abort.
 */
export async function awaken(
  { store, clock, wake }: AwakenOptions,
  before: VmRecord,
  signal: AbortSignal,
): Promise<Awakened> {
  signal.throwIfAborted()
  if (!isSleepingOrWaking(before.observed.state)) return ok(before)
  const { promise, resolve } = Promise.withResolvers<Awakened>()
  const look = (): void => {
    const outcome = outcomeOf(before, store.vms.get(before.id))
    if (outcome !== undefined) resolve(outcome)
  }
  const stopWatching = store.onVmChange((id) => {
    if (id === before.id) look()
  })
  const cancel = clock.after(limits.sshWakeMs, () => {
    const waitingFor = store.vms.get(before.id)?.observed.waitingFor
    const because = waitingFor === undefined ? '' : `: it waits for ${waitingFor}`
    const detail = `${before.id} was not awake after ${limits.sshWakeMs / 1000} s${because}`
    resolve(err({ kind: 'timed_out', detail }))
  })
  try {
    wake(before.id)
    look()
    return await abortable(promise, signal)
  } finally {
    stopWatching()
    cancel()
  }
}

/** Returns the result of the wake; undefined while it can still succeed. */
function outcomeOf(before: VmRecord, now: VmRecord | undefined): Awakened | undefined {
  if (now === undefined || now.createdAtMs !== before.createdAtMs)
    return err({ kind: 'vm_not_running', state: 'deleting' })
  const { state, fault } = now.observed
  if (now.deleting) return err({ kind: 'vm_not_running', state })
  // A fault from before belongs to an earlier attempt, made for another request.
  const failed = fault !== undefined && fault.nextAttemptAtMs !== before.observed.fault?.nextAttemptAtMs
  if (isSleepingOrWaking(now.observed.state) && !failed) return undefined
  return state === 'running' ? ok(now) : err({ kind: 'vm_not_running', state })
}
