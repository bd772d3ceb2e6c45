import { limits } from '../../config/limits.ts'
import { endingTogetherMs } from '../../lib/ending-together.ts'
import { given } from '../../lib/given.ts'
import type { ReadinessCheck } from '../desired.ts'

/** The result of all looks into a guest since its start. Times are milliseconds since the epoch. */
export type GuestSeen = {
  /** The time of the first of the looks that found an agent; absent if the last ones found none. */
  readonly agentSinceMs?: number
  /** Absent before the first look with a check. */
  readonly checked?: Checked
}

/** The findings of a check. */
export type Checked = {
  /** The check that was made: after another is desired, this proves nothing. */
  readonly by: ReadinessCheck
  /** The time of the first of the looks that found the guest ready; absent if the last ones did not. */
  readonly readySinceMs?: number
  /** Why the last looks did not find it ready. */
  readonly because?: string
}

/** One look into a running guest. */
export type GuestLook = {
  /** Undefined if the look failed; then it changes nothing. */
  readonly agent: boolean | undefined
  /** Absent if no check is desired. */
  readonly check?: { readonly by: ReadinessCheck; readonly because: string | undefined }
}

/** Numbers of looks in a row that found no agent, and that did not find the guest ready. */
export type Misses = { readonly agent: number; readonly check: number }

/** Returns the misses after one more look. */
export const missesAfter = (before: Misses, { agent, check }: GuestLook): Misses => ({
  agent: agent === false ? before.agent + 1 : 0,
  check: check?.because === undefined ? 0 : before.check + 1,
})

/** Returns what is known of a guest after one more look. `misses` has that look. */
export function afterLook(
  before: GuestSeen,
  look: GuestLook,
  at: { misses: Misses; nowMs: number },
): GuestSeen {
  const { misses, nowMs } = at
  const isGone = look.agent === false && misses.agent >= limits.guestMissesMin
  const agentSinceMs =
    look.agent === true ? (before.agentSinceMs ?? nowMs) : isGone ? undefined : before.agentSinceMs
  const checked = look.check === undefined ? undefined : checkedAfter(before.checked, look.check, at)
  return given({ agentSinceMs, checked })
}

function checkedAfter(
  before: Checked | undefined,
  { by, because }: NonNullable<GuestLook['check']>,
  { misses, nowMs }: { readonly misses: Misses; readonly nowMs: number },
): Checked {
  const known = before !== undefined && isSameCheck(before.by, by) ? before : undefined
  if (because === undefined) return { by, readySinceMs: known?.readySinceMs ?? nowMs }
  const stays = known?.readySinceMs !== undefined && misses.check < limits.readinessMissesMin
  return stays ? known : { by, because }
}

export const isSameCheck = (a: ReadinessCheck | undefined, b: ReadinessCheck | undefined): boolean =>
  a?.protocol === b?.protocol && a?.port === b?.port && a?.path === b?.path

/** Returns what the desired check found; undefined if it was not made yet, or none is desired. */
export const checkedBy = (
  { checked }: GuestSeen,
  desired: ReadinessCheck | undefined,
): Checked | undefined => (desired !== undefined && isSameCheck(checked?.by, desired) ? checked : undefined)

/** Returns since when the guest is ready: by its check, or by its agent if no check is desired. */
export const readySinceMs = (seen: GuestSeen, desired: ReadinessCheck | undefined): number | undefined =>
  desired === undefined ? seen.agentSinceMs : checkedBy(seen, desired)?.readySinceMs

/**
 * Returns when to look again, in milliseconds: soon after the start of a guest, and after a look that missed what was
 * there. `looks` were made since the start.
 */
export function nextLookMs(
  seen: GuestSeen,
  check: ReadinessCheck | undefined,
  { looks, misses }: { readonly looks: number; readonly misses: Misses },
): number {
  const longestMs = check === undefined ? limits.guestLookMsMax : limits.readinessLookMsMax
  const isMissed = misses.check > 0 || (check === undefined && misses.agent > 0)
  if (readySinceMs(seen, check) !== undefined) return isMissed ? limits.guestLookMsMin : longestMs
  return Math.min(longestMs, limits.guestLookMsMin * 2 ** Math.min(looks, 20))
}

/**
 * Shortens the wait for the next look a little, so that the looks into many guests come in groups. A process that wakes
 * for one look alone spends more time on it than on one of many.
 */
export const groupedWaitMs = (waitMs: number, monotonicMs: number): number =>
  endingTogetherMs(waitMs, waitMs * limits.guestLooksTogether, monotonicMs)

/**
 * Returns the number of looks into a guest that has run for this long. The time between them doubles, see
 * {@link nextLookMs}: n looks take 2^n - 1 times the shortest time.
 */
export const looksIn = (ageMs: number): number =>
  Math.floor(Math.log2(1 + Math.max(0, ageMs) / limits.guestLookMsMin))

/**
 * Returns when this daemon makes its first look, in milliseconds. If an earlier daemon has made `looks` already, the
 * time is random and at most that between two looks. Otherwise a start would look into all guests of the host at once,
 * and again after each interval. `random` is from 0 to 1.
 */
export function firstLookMs(
  seen: GuestSeen,
  check: ReadinessCheck | undefined,
  { looks, random }: { readonly looks: number; readonly random: number },
): number {
  if (looks === 0) return limits.guestLookMsMin
  const untilNextMs = nextLookMs(seen, check, { looks, misses: { agent: 0, check: 0 } })
  return limits.guestLookMsMin + random * (untilNextMs - limits.guestLookMsMin)
}
