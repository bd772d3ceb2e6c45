import { limits } from '../../config/limits.ts'
import { isUndecided } from '../../core/migration/departure.ts'
import { warnOfFault } from '../../log/log.ts'
import { withdraw } from './withdraw.ts'
import type { WithdrawalReason } from '../../core/migration/departure.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { DepartureContext } from './context.ts'

type Deadline = { readonly atMs: number; readonly because: WithdrawalReason }

/** Withdraws offers and handovers whose time is over. */
export class OfferExpiry {
  readonly #options: DepartureContext
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
    const nowMs = clock.now()
    const why = (record: VmRecord): WithdrawalReason | undefined => {
      const deadline = deadlineOf(record)
      return deadline !== undefined && deadline.atMs <= nowMs ? deadline.because : undefined
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

  /** Waits for the next deadline, for at least `leastMs`, but not for long: the clock may be set meanwhile. */
  #wait(leastMs = 0): void {
    this.#cancelTimer()
    if (this.#isStopped) return
    const { store, clock } = this.#options
    const deadlines = store.departures.undecided().flatMap((record) => deadlineOf(record)?.atMs ?? [])
    if (deadlines.length === 0) return
    const waitMs = Math.min(...deadlines) - clock.now()
    this.#cancelTimer = clock.after(Math.max(leastMs, Math.min(waitMs, limits.offerRecheckMs)), () =>
      this.#look(),
    )
  }
}

/** Returns when an offer ends by itself; undefined if none is under way. */
function deadlineOf({ departure, desired: { migration } }: VmRecord): Deadline | undefined {
  if (departure === undefined || migration === undefined || !isUndecided(departure)) return undefined
  const expired: Deadline = { atMs: migration.expiresAtMs, because: 'expired' }
  const { handoverSinceMs } = departure
  if (handoverSinceMs === undefined) return expired
  const handover: Deadline = { atMs: handoverSinceMs + limits.handoverMsMax, because: 'handover_expired' }
  return handover.atMs < expired.atMs ? handover : expired
}
