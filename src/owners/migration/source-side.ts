import { limits } from '../../config/limits.ts'
import { afterEvent, isHandover, isUndecided } from '../../core/migration/departure.ts'
import { manifestOf, powerOf } from '../../core/vm/manifest.ts'
import { abortable } from '../../lib/abortable.ts'
import { given } from '../../lib/given.ts'
import { err, ok } from '../../lib/result.ts'
import { CopyEnded, CopyPlaces } from './copy-places.ts'
import { LastRounds } from './last-rounds.ts'
import { Moves } from './moves.ts'
import { SourceRounds } from './source-rounds.ts'
import { SourceReads } from './source-reads.ts'
import { withdraw } from './withdraw.ts'
import type { DepartureStage } from '../../core/migration/departure.ts'
import type { VmId } from '../../core/ids.ts'
import type { HandOver, Manifest } from '../../core/vm/manifest.ts'
import type { Round } from '../../ports/disk-rounds.ts'
import type { Answered } from '../../ports/source-host.ts'
import type { SourceContext } from './context.ts'
import type { Move } from './moves.ts'

type Stage = { readonly stage: DepartureStage }

/**
 * The source's side of migrations: answers the requests of destinations. What an answer says is on the disk before, so
 * each request can be repeated at any time, also to the next daemon.
 */
export class SourceSide {
  readonly #context: SourceContext
  readonly #moves: Moves
  readonly #places: CopyPlaces
  readonly #rounds: SourceRounds
  readonly #lastRounds: LastRounds
  /** The answers that are streams, or packets. */
  readonly reads: SourceReads
  readonly #ending = new AbortController()

  constructor(context: SourceContext) {
    this.#context = context
    this.#moves = new Moves(context)
    this.#places = new CopyPlaces(context)
    this.#rounds = new SourceRounds(context)
    this.#lastRounds = new LastRounds(context, this.#rounds)
    this.reads = new SourceReads(context, {
      moves: this.#moves,
      places: this.#places,
      ending: this.#ending.signal,
    })
    context.store.onVmChange((id) => {
      this.#places.notice(id)
      this.#rounds.notice(id)
      this.#lastRounds.notice(id)
    })
  }

  /** Continues what an earlier daemon began. Call it after each VM was inspected once. */
  start(): void {
    this.#rounds.start()
    this.#lastRounds.start()
  }

  /** Ends streams and waits, and resolves when nothing runs. The next daemon continues. */
  async stop(): Promise<void> {
    this.#ending.abort(new CopyEnded('the daemon stops'))
    this.#places.endAll()
    await Promise.all([this.#lastRounds.stop(), this.#rounds.stop()])
  }

  /** Returns the VM that this migration offers to this node, while it may still leave. Throws HostFault. */
  async manifest(move: Pick<Move, 'id' | 'node'>): Answered<Manifest> {
    const { store, host } = this.#context
    // The manifest has the user data and keys as they are now, and the node has no right to later ones.
    const found = this.#moves.undecided(move)
    if (!found.ok) return found
    const { record, departure } = found.value
    const belongings = {
      inputs: store.vms.inputs(record.id),
      daemonSshKey: host.sshPublicKey,
      ...given({ sshHostKey: store.sshHostKeys.get(record.id) }),
    }
    const driver = host.monitors[record.monitor]
    const [monitor, processor] = [await driver.installed(), driver.processor]
    await store.flushed()
    return ok(manifestOf(record, departure, { ...belongings, monitor, processor }))
  }

  /** Takes a round of the disk, or returns it again. Throws HostFault, and the reason of the signal. */
  async ensureRound(move: Move, number: number, signal: AbortSignal): Answered<Round> {
    const found = this.#moves.undecided(move)
    if (!found.ok) return found
    const { id } = found.value.record
    if (!isHandover(found.value.departure) && this.#places.isFullFor(id)) return err('busy')
    const copy = this.#places.begin(id, { isWanted: () => this.#moves.isUndecided(id, move) }, signal)
    try {
      return await this.#rounds.inTurn(id, () => this.#ensure(id, move, number, copy.signal), copy.signal)
    } catch (error) {
      if (!(copy.signal.reason instanceof CopyEnded)) throw error
      const still = this.#moves.readable(move)
      return still.ok ? err('busy') : still
    } finally {
      copy.end()
    }
  }

  async #ensure(id: VmId, move: Move, number: number, signal: AbortSignal): Answered<Round> {
    const { arrival } = move
    const copied = this.#moves.advance(move, () => ({ kind: 'copy', arrival }))
    if (!copied.ok) return copied
    const { stage, round } = copied.value.departure
    if (stage === 'copying' && round === undefined) await this.#rounds.clear(id)
    const taken = this.#moves.advance(move, () => ({ kind: 'take_round', arrival, number }))
    if (!taken.ok) return taken
    // The record must know of the round before it exists: the last round gets a number that no earlier one has.
    await this.#context.store.flushed()
    signal.throwIfAborted()
    return ok(await this.#rounds.ensure({ id, arrival, number }, signal))
  }

  /**
   * Begins the handover to the destination, and waits for a while until the guest is down. Throws HostFault, and the
   * reason of the signal.
   */
  async handOver(move: Move, signal: AbortSignal): Answered<HandOver> {
    const { store, host } = this.#context
    const { arrival } = move
    const asked = this.#moves.advance(move, ({ record, departure }) => ({
      kind: 'hand_over',
      arrival,
      lived: record === undefined ? (departure.lived ?? 'stopped') : powerOf(record),
    }))
    if (!asked.ok) return asked
    await store.flushed()
    const { record } = asked.value
    if (record !== undefined) await this.#whileHandingOver(record.id, move, signal)
    const after = this.#moves.find(move)
    if (!after.ok) return after
    const { stage, lastRound } = after.value.departure
    if (stage === 'withdrawn') return err('withdrawn')
    await store.flushed()
    const isSaved = stage === 'handed_over' && record !== undefined
    const memory = isSaved ? await host.savedStates.describe(record.id) : undefined
    return ok({ stage, ...given({ lastRound, memory }) })
  }

  async #whileHandingOver(id: VmId, move: Move, signal: AbortSignal): Promise<void> {
    const { store, clock } = this.#context
    const { promise, resolve } = Promise.withResolvers<void>()
    const look = (): void => {
      const departure = store.vms.get(id)?.departure
      if (departure?.id !== move.id || departure.stage !== 'handing_over') resolve()
    }
    const stopWatching = store.onVmChange((changed) => {
      if (changed === id) look()
    })
    const cancelTimer = clock.after(limits.handoverPollMs, resolve)
    const ending = this.#ending.signal
    const onEnd = (): void => resolve()
    ending.addEventListener('abort', onEnd)
    look()
    try {
      if (!ending.aborted) await abortable(promise, signal)
    } finally {
      ending.removeEventListener('abort', onEnd)
      stopWatching()
      cancelTimer()
    }
  }

  /** Releases the guest to the destination, which has this round and all before it. From then on it never runs here. */
  async release(move: Move, lastRound: number): Answered<Stage> {
    const { arrival } = move
    const released = this.#moves.advance(move, () => ({ kind: 'release', arrival, lastRound }))
    if (!released.ok) return released
    await this.#context.store.flushed()
    return ok({ stage: released.value.departure.stage })
  }

  /** Ends the attempt of the destination: the guest goes on here at once. */
  async abort(move: Move): Answered<Stage> {
    const { store, clock } = this.#context
    const found = this.#moves.find(move)
    if (!found.ok) return found
    const { record, departure } = found.value
    const aborted = afterEvent(departure, { kind: 'abort', arrival: move.arrival }, clock.now())
    if (!aborted.ok) return aborted
    if (record !== undefined && isUndecided(departure)) withdraw(this.#context, record.id, () => 'aborted')
    await store.flushed()
    return ok({ stage: aborted.value.stage })
  }
}
