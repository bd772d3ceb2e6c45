/** Memory of this process, which no record has: a new daemon begins without it. */
import { limits } from '../config/limits.ts'
import { UnchangedSince } from '../lib/unchanged-since.ts'
import type { VmId } from '../core/ids.ts'
import type { Facts, GuestsAtShutdown } from '../core/plan/facet.ts'
import type { Grace, VmRecord } from '../core/vm/record.ts'
import type { World } from '../core/world/world.ts'
import type { Clock } from '../ports/clock.ts'

/**
 * Measures how long monitors have not answered. Only this process keeps it: a new daemon knows of no answer, and counts
 * from its own first look.
 */
export class Silences {
  /** The main process of each monitor that does not answer. */
  readonly #silent = new UnchangedSince<VmId, number>()

  /** Records a look; returns the milliseconds since the first look without an answer, or 0 if the monitor answered. */
  note(id: VmId, { unit, monitor }: World, nowMs: number): number {
    // A failed look proves nothing.
    if (!unit.known || !monitor.known) return 0
    if (unit.value.kind !== 'active' || monitor.value.kind !== 'silent') {
      this.#silent.forget(id)
      return 0
    }
    return this.#silent.note(id, unit.value.mainPid, nowMs)
  }

  /** Forgets a VM that has no worker any more. */
  forget(id: VmId): void {
    this.#silent.forget(id)
  }
}

/**
 * The policy for running guests while the host shuts down. Only this process keeps it:
 * the next one starts after a boot.
 */
export class HostEnd {
  #policy: GuestsAtShutdown | undefined
  readonly #clock: Pick<Clock, 'monotonicMs'>
  /** When each guest was last asked to end, by the monotonic clock. */
  readonly #askedAtMs = new Map<VmId, number>()

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  /** Undefined while the host does not shut down. */
  get policy(): GuestsAtShutdown | undefined {
    return this.#policy
  }

  /** Begins with a policy, or replaces it for the guests that still run. */
  begin(policy: GuestsAtShutdown): void {
    this.#policy = policy
  }

  /** Returns the policy for this guest. One that was asked to end is left alone until it is asked again. */
  factsFor(id: VmId): Pick<Facts, 'guestAtShutdown'> {
    if (this.#policy === undefined) return {}
    const askAgainMs = this.#policy === 'ask' ? this.#askAgainMs(id) : 0
    return { guestAtShutdown: askAgainMs > 0 ? { do: 'leave', askAgainMs } : { do: this.#policy } }
  }

  #askAgainMs(id: VmId): number {
    const askedAtMs = this.#askedAtMs.get(id) ?? -Infinity
    return askedAtMs + limits.askToEndAgainMs - this.#clock.monotonicMs()
  }

  noteAsked(id: VmId): void {
    if (this.#policy !== undefined) this.#askedAtMs.set(id, this.#clock.monotonicMs())
  }
}

type Clocks = Pick<Clock, 'now' | 'monotonicMs'>

/** A grace by the generation of its stop, and when it ends on the monotonic clock. */
type CountedGrace = { readonly stop: number; readonly endsMs: number }

/**
 * Counts the graces of stops. How much time is left is computed when the daemon first sees the grace; from then on the
 * monotonic clock counts it, because the time of day may be set. Only this process keeps it: a new daemon trusts the
 * clock, but gives no guest more than its whole time.
 */
export class Graces {
  readonly #clock: Clocks
  readonly #counted = new Map<VmId, CountedGrace>()

  constructor(clock: Clocks) {
    this.#clock = clock
  }

  /** Begins to count the grace of a VM; forgets an earlier one. */
  note({ id, stops: { grace } }: VmRecord): void {
    if (grace === undefined) this.#counted.delete(id)
    else this.#counted.set(id, this.#count(id, grace))
  }

  /** Returns the milliseconds that are left of a grace; 0 if it is over, undefined without one. */
  leftMs({ id, stops: { grace } }: VmRecord): number | undefined {
    if (grace === undefined) return undefined
    return Math.max(0, this.#count(id, grace).endsMs - this.#clock.monotonicMs())
  }

  /** Returns the record with the end of its grace by a clock that shows `nowMs`. */
  timed(record: VmRecord, nowMs: number): VmRecord {
    const { stops } = record
    const leftMs = this.leftMs(record)
    if (stops.grace === undefined || leftMs === undefined) return record
    return { ...record, stops: { ...stops, grace: { ...stops.grace, untilMs: nowMs + leftMs } } }
  }

  /** Forgets a VM that has no worker any more. */
  forget(id: VmId): void {
    this.#counted.delete(id)
  }

  #count(id: VmId, grace: Grace): CountedGrace {
    const known = this.#counted.get(id)
    if (known?.stop === grace.stop) return known
    const { stop, fromMs, untilMs } = grace
    const leftMs = Math.min(untilMs - this.#clock.now(), untilMs - fromMs)
    return { stop, endsMs: this.#clock.monotonicMs() + leftMs }
  }
}

/**
 * A stopped VM. `sinceMs`: since when, by its record. `agedMs`: how long that was at the first look. `atMs`: the time
 * of that look by the monotonic clock. `wasAhead`: a look found the clock behind the stop, so it was wrong at one of
 * the two.
 */
type Stopped = {
  readonly sinceMs: number
  readonly agedMs: number
  readonly atMs: number
  readonly wasAhead: boolean
}

/**
 * Measures by the monotonic clock how long VMs have been stopped: the host's clock may be set, and a deletion cannot be
 * undone. Only this process keeps it: a new daemon trusts the clock for what was before,
 * but holds deletions for a while.
 */
export class StoppedVms {
  readonly #stopped = new Map<VmId, Stopped>()

  /** Notes a look at a VM that is stopped; returns what the looks at this stop have found. */
  note(id: VmId, sinceMs: number, clock: Clocks): Stopped {
    const known = this.#stopped.get(id)
    const ageMs = clock.now() - sinceMs
    const first =
      known?.sinceMs === sinceMs
        ? known
        : { sinceMs, agedMs: Math.max(0, ageMs), atMs: clock.monotonicMs(), wasAhead: false }
    const stopped = { ...first, wasAhead: first.wasAhead || ageMs < 0 }
    this.#stopped.set(id, stopped)
    return stopped
  }

  /** Forgets a VM that has no worker any more. */
  forget(id: VmId): void {
    this.#stopped.delete(id)
  }
}

/**
 * Returns the milliseconds until a VM has certainly been stopped for `forMs`. If the clock was ahead at the stop,
 * nothing counts but the time of this process.
 */
export function stoppedLeftMs(
  { sinceMs, agedMs, atMs, wasAhead }: Stopped,
  forMs: number,
  clock: Clocks,
): number {
  const watchedMs = clock.monotonicMs() - atMs
  if (wasAhead) return Math.max(0, forMs - watchedMs)
  const byClockMs = forMs - (clock.now() - sinceMs)
  const byWatchMs = forMs - (agedMs + watchedMs)
  const heldMs = Math.min(forMs, limits.deletionHoldMs) - watchedMs
  return Math.max(0, byClockMs, byWatchMs, heldMs)
}
