import { limits } from '../../config/limits.ts'
import { errorChain } from '../../log/error-chain.ts'
import { accepted, SourceRefused } from './source-refused.ts'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { ArrivalContext } from './pulling.ts'

type Context = Pick<ArrivalContext, 'host' | 'store' | 'log'>

/**
 * Lets a guest go on at its source, because its VM was deleted here. Throws what keeps the source from answering, and
 * StateUnwritable if the answer cannot be noted.
 */
export async function giveBack(
  { host, store }: Context,
  arrival: Arrival,
  until?: AbortSignal,
): Promise<void> {
  const { source, migrationId, id } = arrival
  const bound = AbortSignal.timeout(limits.offerReadMs)
  const signal = until === undefined ? bound : AbortSignal.any([until, bound])
  const answer = await host.sourceHosts.at(source).abort({ migrationId, arrival: id }, signal)
  try {
    accepted('copy', answer)
  } catch (error) {
    // A source that refuses has decided already.
    if (!(error instanceof SourceRefused)) throw error
  }
  store.giveBacks.end(arrival)
}

type Owed = { readonly arrival: Arrival; readonly sinceMs: number; cancel: () => void }

/**
 * Guests of VMs that were deleted here, whose sources have not heard of it. A source is asked every second for as long
 * as it may keep its guest down for the handover, and then every minute, until its offer must be over. The deletion is
 * on record until the source has answered, so another daemon continues this.
 */
export class GiveBacks {
  readonly #context: Context
  readonly #owed = new Map<MigrationId, Owed>()
  readonly #stopping = new AbortController()
  readonly #asking = new Set<Promise<void>>()

  constructor(context: Context) {
    this.#context = context
  }

  /** Asks the source of a guest again until it answers. */
  add(arrival: Arrival): void {
    this.forget(arrival.migrationId)
    if (this.#stopping.signal.aborted || this.#owed.size >= limits.giveBacksMax) return
    const owed = { arrival, sinceMs: this.#context.host.clock.monotonicMs(), cancel: () => {} }
    this.#owed.set(arrival.migrationId, owed)
    this.#askLater(owed)
  }

  /** Forgets a migration by which a VM comes again: an end of the attempt before could end the new one. */
  forget(id: MigrationId): void {
    this.#owed.get(id)?.cancel()
    this.#owed.delete(id)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    for (const id of [...this.#owed.keys()]) this.forget(id)
    await Promise.all(this.#asking)
  }

  #askLater(owed: Owed): void {
    const { clock } = this.#context.host
    const agedMs = clock.monotonicMs() - owed.sinceMs
    if (agedMs >= limits.offerMsMax) this.forget(owed.arrival.migrationId)
    else {
      const ms = agedMs < limits.handoverMsMax ? limits.handoverLookMs : limits.roundsRetryMs
      owed.cancel = clock.after(ms, () => {
        const asking = this.#ask(owed)
        this.#asking.add(asking)
        void asking.finally(() => this.#asking.delete(asking))
      })
    }
  }

  async #ask(owed: Owed): Promise<void> {
    const { arrival } = owed
    const isOwed = (): boolean => this.#owed.get(arrival.migrationId) === owed
    try {
      await giveBack(this.#context, arrival, this.#stopping.signal)
      if (isOwed()) this.#owed.delete(arrival.migrationId)
    } catch (error) {
      if (!isOwed()) return
      this.#context.log.debug({ error: errorChain(error) }, 'guest not given back to its source yet')
      this.#askLater(owed)
    }
  }
}
