import { limits } from '../../config/limits.ts'
import { isUndecided } from '../../core/migration/departure.ts'
import { withoutOffer } from '../../core/vm/leaving.ts'
import type { VmId } from '../../core/ids.ts'
import type { WithdrawalReason } from '../../core/migration/departure.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Log } from '../../log/log.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Store } from '../../store/store.ts'

export type OfferExpiryOptions = {
  readonly store: Store
  readonly clock: Clock
  readonly poke: (id: VmId, reason: string) => void
  readonly log: Log
}

type Deadline = { readonly atMs: number; readonly because: WithdrawalReason }

/** Withdraws offers and handovers whose time is over. */
export class OfferExpiry {
  readonly #options: OfferExpiryOptions
  #cancelTimer = (): void => {}
  #isStopped = false

  constructor(options: OfferExpiryOptions) {
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
    const { store, clock } = this.#options
    const nowMs = clock.now()
    for (const { id } of store.departures.undecided()) this.#withdrawLate(id, nowMs)
    this.#wait()
  }

  /** Waits for the next deadline, but not for long: the clock may be set meanwhile. */
  #wait(): void {
    this.#cancelTimer()
    if (this.#isStopped) return
    const { store, clock } = this.#options
    const deadlines = store.departures.undecided().flatMap((record) => deadlineOf(record)?.atMs ?? [])
    if (deadlines.length === 0) return
    const waitMs = Math.min(...deadlines) - clock.now()
    this.#cancelTimer = clock.after(Math.max(0, Math.min(waitMs, limits.offerRecheckMs)), () => this.#look())
  }

  #withdrawLate(id: VmId, nowMs: number): void {
    const { store, log, poke } = this.#options
    const withdrawn = store.transaction(() => {
      const record = store.vms.get(id)
      const deadline = record && deadlineOf(record)
      if (record === undefined || deadline === undefined || deadline.atMs > nowMs) return undefined
      const { departure, wakes } = withoutOffer(record, deadline.because, nowMs)
      if (departure === undefined) return undefined
      store.departures.set(id, departure, nowMs)
      if (wakes) store.vms.requestWake(id, { reason: 'withdrawn', atMs: nowMs })
      return departure
    })
    if (withdrawn === undefined) return
    log.warn({ vm_id: id, migration_id: withdrawn.id, because: withdrawn.because }, 'offer withdrawn')
    poke(id, `offer ${withdrawn.because}`)
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
