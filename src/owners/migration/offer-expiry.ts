import { limits } from '../../config/limits.ts'
import { isUndecided } from '../../core/migration/departure.ts'
import { warnOfFault } from '../../log/log.ts'
import { withdraw } from './withdraw.ts'
import type { VmId } from '../../core/ids.ts'
import type { WithdrawalReason } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { DepartureContext } from './context.ts'

type Deadline = {
  readonly migration: MigrationId
  readonly because: WithdrawalReason
  /** Milliseconds since the epoch. */
  readonly atMs: number
  /** The time that can be left of it. */
  readonly leftMsMax: number
}

/** A deadline, and when it is on the monotonic clock. */
type Timed = Deadline & { readonly endsMs: number }

/**
 * Withdraws offers and handovers whose time is over. How much time is left is computed when the daemon first sees the
 * deadline; from then on the monotonic clock counts it, because the time of day may be set.
 */
export class OfferExpiry {
  readonly #options: DepartureContext
  readonly #timed = new Map<VmId, readonly Timed[]>()
  #cancelTimer = (): void => {}
  #isStopped = false

  constructor(options: DepartureContext) {
    this.#options = options
    const { store } = options
    store.onVmChange((id) => {
      if (store.departures.isUndecided(id)) this.#wait()
    })
  }

  /** Withdraws what expired while the daemon was down, and begins to watch. */
  start(): void {
    this.#look()
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelTimer()
  }

  #look(): void {
    const { store, clock, log } = this.#options
    const nowMs = clock.monotonicMs()
    const why = (record: VmRecord): WithdrawalReason | undefined => {
      const [first] = this.#deadlines(record)
      return first !== undefined && first.endsMs <= nowMs ? first.because : undefined
    }
    // A transaction is opened only for an offer that has expired.
    const expired = store.departures.undecided().filter((record) => why(record) !== undefined)
    let leastMs = 0
    for (const { id } of expired)
      try {
        withdraw(this.#options, id, why)
      } catch (error) {
        warnOfFault(log, error, 'offer not withdrawn; tried again later', { vm_id: id })
        leastMs = limits.offerRecheckMs
      }
    this.#wait(leastMs)
  }

  /** Waits for the next deadline, for at least `leastMs`. */
  #wait(leastMs = 0): void {
    this.#cancelTimer()
    if (this.#isStopped) return
    const { store, clock } = this.#options
    const undecided = store.departures.undecided()
    const ends = undecided.flatMap((record) => this.#deadlines(record)[0]?.endsMs ?? [])
    const ids = new Set(undecided.map(({ id }) => id))
    for (const id of this.#timed.keys()) if (!ids.has(id)) this.#timed.delete(id)
    if (ends.length === 0) return
    const waitMs = Math.min(...ends) - clock.monotonicMs()
    this.#cancelTimer = clock.after(Math.max(leastMs, waitMs), () => this.#look())
  }

  /** Returns when an offer ends by itself, the first deadline first; nothing if none is under way. */
  #deadlines(record: VmRecord): readonly Timed[] {
    const { clock } = this.#options
    const known = this.#timed.get(record.id) ?? []
    const timed = deadlinesOf(record).map((deadline) => {
      const { migration, because, atMs, leftMsMax } = deadline
      const same = known.find(
        (one) => one.migration === migration && one.because === because && one.atMs === atMs,
      )
      const leftMs = Math.min(atMs - clock.now(), leftMsMax)
      return same ?? { ...deadline, endsMs: clock.monotonicMs() + leftMs }
    })
    this.#timed.set(record.id, timed)
    return timed.toSorted((a, b) => a.endsMs - b.endsMs)
  }
}

/** Returns the times at which an offer ends by itself; none if no offer is under way. */
function deadlinesOf({ departure, desired: { migration } }: VmRecord): readonly Deadline[] {
  if (departure === undefined || migration === undefined || !isUndecided(departure)) return []
  const { id, handoverSinceMs } = departure
  const expired: Deadline = {
    migration: id,
    because: 'expired',
    atMs: migration.expiresAtMs,
    leftMsMax: limits.offerMsMax,
  }
  if (handoverSinceMs === undefined) return [expired]
  const { handoverMsMax } = limits
  const atMs = handoverSinceMs + handoverMsMax
  return [{ migration: id, because: 'handover_expired', atMs, leftMsMax: handoverMsMax }, expired]
}
