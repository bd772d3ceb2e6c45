import { limits } from '../../config/limits.ts'
import { guestAddress } from '../desired.ts'
import type { Compute, Network } from '../desired.ts'
import type { VmRecord } from '../vm/record.ts'

type Sleeps = {
  readonly compute: Compute
  readonly network?: Pick<Network, 'ipv4Address' | 'ipv6Address'>
}

/** Only a request could wake a guest without an address, and no traffic would keep it awake. So it never sleeps. */
export const canSleep = ({ compute, network }: Sleeps): boolean =>
  compute.sleepAfterIdleSeconds > 0 && guestAddress(network) !== undefined

/**
 * Returns how long a VM must be idle before it sleeps, in milliseconds; undefined if it never sleeps. After several
 * short sleeps in a row, a VM waits longer each time, because a save and a restore cost more than they gain.
 */
export function idleTimeoutMs({
  desired,
  observed,
}: Pick<VmRecord, 'desired' | 'observed'>): number | undefined {
  if (!canSleep(desired)) return undefined
  const askedMs = desired.compute.sleepAfterIdleSeconds * 1000
  const extra = (observed.shortSleeps ?? 0) - limits.shortSleepsFree
  if (extra <= 0) return askedMs
  // 2^20 times any timeout exceeds the cap; the bound keeps the power finite.
  return Math.max(askedMs, Math.min(limits.sleepBackoffMsMax, askedMs * 2 ** Math.min(extra, 20)))
}

export const isFlapping = ({ observed }: Pick<VmRecord, 'observed'>): boolean =>
  (observed.shortSleeps ?? 0) > limits.shortSleepsFree
