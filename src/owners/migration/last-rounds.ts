import { limits } from '../../config/limits.ts'
import { afterEvent } from '../../core/migration/departure.ts'
import { handoverReadiness } from '../../core/vm/at-rest.ts'
import { errorChain } from '../../log/error-chain.ts'
import { inLogContext } from '../../log/log.ts'
import { withdraw } from './withdraw.ts'
import type { VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { SourceContext } from './context.ts'
import type { SourceRounds } from './source-rounds.ts'

/** One guest that is watched, from its handover until it is at rest or stays. */
type Watch = { changed: PromiseWithResolvers<void>; abort: AbortController; ended: Promise<void> }

/**
 * Watches guests that are handed over. When one has come to rest, it takes the last round of the disk and puts on
 * record that the guest is handed over. A guest that ended without its memory stays: its offer is withdrawn.
 */
export class LastRounds {
  readonly #context: SourceContext
  readonly #rounds: SourceRounds
  readonly #watches = new Map<VmId, Watch>()
  #isRunning = false

  constructor(context: SourceContext, rounds: SourceRounds) {
    this.#context = context
    this.#rounds = rounds
  }

  /** Continues every handover. Call it after each VM was inspected once. */
  start(): void {
    this.#isRunning = true
    for (const { id } of this.#context.store.departures.undecided()) this.notice(id)
  }

  /** Looks at a VM that has changed. */
  notice(id: VmId): void {
    const watch = this.#watches.get(id)
    // Cheap, because it is asked at each change of a VM.
    if (watch === undefined && !this.#context.store.departures.isUndecided(id)) return
    const isHandingOver = this.#handingOver(id) !== undefined
    if (watch === undefined) {
      if (isHandingOver && this.#isRunning) this.#watch(id)
      return
    }
    if (!isHandingOver) watch.abort.abort()
    watch.changed.resolve()
  }

  /** Resolves when no look is under way. */
  async stop(): Promise<void> {
    this.#isRunning = false
    const watches = [...this.#watches.values()]
    for (const { abort, changed } of watches) {
      abort.abort()
      changed.resolve()
    }
    await Promise.all(watches.map(({ ended }) => ended))
  }

  #watch(id: VmId): void {
    const watch: Watch = {
      changed: Promise.withResolvers(),
      abort: new AbortController(),
      ended: Promise.resolve(),
    }
    this.#watches.set(id, watch)
    watch.ended = inLogContext({ vm_id: id }, () => this.#follow(id, watch))
  }

  async #follow(id: VmId, watch: Watch): Promise<void> {
    while (this.#isRunning && this.#mayBeHandingOver(id)) {
      watch.changed = Promise.withResolvers()
      watch.abort = new AbortController()
      await this.#tryToTake(id, watch.abort.signal)
      const cancelTimer = this.#context.clock.after(limits.handoverLookMs, watch.changed.resolve)
      await watch.changed.promise
      cancelTimer()
    }
    this.#watches.delete(id)
  }

  async #tryToTake(id: VmId, signal: AbortSignal): Promise<void> {
    const { betweenPasses, log } = this.#context
    try {
      // No pass may start the guest, or change its disk, between the look and the record.
      const take = () => betweenPasses(id, (ending) => this.#take(id, AbortSignal.any([signal, ending])))
      await this.#rounds.inTurn(id, take, signal)
    } catch (error) {
      if (signal.aborted || this.#handingOver(id) === undefined) return
      log.warn({ error: errorChain(error) }, 'last round not taken')
    }
  }

  async #take(id: VmId, signal: AbortSignal): Promise<void> {
    const { store, host, log, poke } = this.#context
    const departure = this.#handingOver(id)
    const kind = store.vms.readable(id)?.monitor
    if (departure?.arrival === undefined || kind === undefined) return
    const unit = await host.units.inspect(id)
    const saved = await host.savedStates.inspect(id, await host.monitors[kind].installed())
    const readiness = handoverReadiness(departure, unit, saved)
    if (readiness === 'lost')
      withdraw(this.#context, id, () =>
        this.#handingOver(id)?.id === departure.id ? 'guest_lost' : undefined,
      )
    if (readiness !== 'ready') return
    signal.throwIfAborted()
    const newest = departure.round ?? 0
    const round = await this.#rounds.ensureLast({ id, arrival: departure.arrival, newest }, signal)
    if (!this.#noteSaved(id, departure, newest + 1)) return
    const names = { migration_id: departure.id, last_round: newest + 1 }
    log.info({ ...names, changed_bytes: round.changedBytes }, 'guest handed over')
    poke(id, 'the guest is handed over')
  }

  /** Returns whether the guest is handed over: it may have been taken back since the round was begun. */
  #noteSaved(id: VmId, { id: migration }: Departure, lastRound: number): boolean {
    const { store, clock } = this.#context
    return store.transaction(() => {
      const departure = this.#handingOver(id)
      if (departure?.id !== migration) return false
      const after = afterEvent(departure, { kind: 'guest_saved', lastRound }, clock.now())
      if (after.ok) store.departures.set(id, after.value, clock.now())
      return after.ok
    })
  }

  /**
   * Returns whether a watch goes on: also while the record cannot be read, because nothing begins it again when it can.
   */
  #mayBeHandingOver(id: VmId): boolean {
    return this.#handingOver(id) !== undefined || this.#context.store.vms.isUnreadable(id)
  }

  /** Returns the departure of a guest that is to come to rest; undefined also while the record cannot be read. */
  #handingOver(id: VmId): Departure | undefined {
    const departure = this.#context.store.vms.readable(id)?.departure
    return departure?.stage === 'handing_over' ? departure : undefined
  }
}
