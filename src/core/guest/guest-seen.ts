import { limits } from '../../config/limits.ts'
import { given } from '../../lib/given.ts'

/** The result of all looks into a guest since its start. Times are milliseconds since the epoch. */
export type GuestSeen = {
  /** The time of the first of the looks that found an agent; absent if the last ones found none. */
  readonly agentSinceMs?: number
}

/** One look into a running guest. A member is undefined if the look failed, and then changes nothing. */
export type GuestLook = {
  readonly agent: boolean | undefined
  /** Number of looks in a row that found no agent, this one included. */
  readonly misses: number
}

/** Returns what is known of a guest after one more look. */
export function afterLook(before: GuestSeen, { agent, misses }: GuestLook, nowMs: number): GuestSeen {
  const { agentSinceMs } = before
  const isGone = agent === false && misses >= limits.guestMissesMin
  return given({ agentSinceMs: agent === true ? (agentSinceMs ?? nowMs) : isGone ? undefined : agentSinceMs })
}

/** Returns when to look again, in milliseconds: soon after the start of a guest, and after a look that missed its agent. */
export function nextLookMs(
  { agentSinceMs }: GuestSeen,
  { looks, misses }: { readonly looks: number; readonly misses: number },
): number {
  const { guestLookMsMin, guestLookMsMax } = limits
  if (agentSinceMs !== undefined) return misses > 0 ? guestLookMsMin : guestLookMsMax
  return Math.min(guestLookMsMax, guestLookMsMin * 2 ** Math.min(looks, 20))
}
