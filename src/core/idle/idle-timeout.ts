import { limits } from '../../config/limits.ts'
import type { Desired } from '../vm/desired.ts'
import type { VmRecord } from '../vm/record.ts'

/** Nothing could wake a guest without network but a request, and no traffic keeps it awake: it never sleeps. */
export const canSleep = ({ compute, network }: Pick<Desired, 'compute' | 'network'>): boolean =>
  compute.sleepAfterIdleSeconds > 0 && network !== undefined

/**
 * How long a VM is idle before it sleeps, in milliseconds; undefined where it never does. A VM that was woken soon after
 * it fell asleep several times in a row waits longer each time: to save and restore it costs more than it wins.
 */
export function idleTimeoutMs({
  desired,
  observed,
}: Pick<VmRecord, 'desired' | 'observed'>): number | undefined {
  if (!canSleep(desired)) return undefined
  const askedMs = desired.compute.sleepAfterIdleSeconds * 1000
  const extra = (observed.shortSleeps ?? 0) - limits.shortSleepsFree
  if (extra <= 0) return askedMs
  // 2^20 times any timeout is beyond the cap; the bound keeps the power finite.
  return Math.max(askedMs, Math.min(limits.sleepBackoffMsMax, askedMs * 2 ** Math.min(extra, 20)))
}

export const isFlapping = ({ observed }: Pick<VmRecord, 'observed'>): boolean =>
  (observed.shortSleeps ?? 0) > limits.shortSleepsFree
