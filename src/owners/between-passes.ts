import type { VmId } from '../core/ids.ts'

/**
 * Runs a task while the VM's worker does not act; undefined if the VM has no worker. The first signal asks the task to
 * end soon. The second one says that the guest must end at once. See `Reconciler.betweenPasses`.
 */
export type BetweenPasses = <T>(
  id: VmId,
  task: (ending: AbortSignal, guestMustEnd: AbortSignal) => Promise<T>,
) => Promise<T | undefined>
