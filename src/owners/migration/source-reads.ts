import { limits } from '../../config/limits.ts'
import { abortable, pause } from '../../lib/abortable.ts'
import { Places } from '../../lib/places.ts'
import { err, ok } from '../../lib/result.ts'
import { StreamsFull } from './copy-places.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { SourceRefusal } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Result } from '../../lib/result.ts'
import type { MovedConsole } from '../../ports/consoles.ts'
import type { Answered } from '../../ports/source-host.ts'
import type { HeldPacket } from '../../ports/traffic.ts'
import type { SourceContext } from './context.ts'
import type { CopyPlaces, CopyTerms } from './copy-places.ts'
import type { Move, Moves, Undecided } from './moves.ts'

type Bytes = AsyncIterable<Uint8Array>
type Parts = { readonly moves: Moves; readonly places: CopyPlaces; readonly ending: AbortSignal }

type Opened = CopyTerms & {
  readonly open: (signal: AbortSignal) => Bytes
  readonly signal: AbortSignal
}

/**
 * What destinations read from the source. An iteration throws HostFault, the reason of the signal, CopyEnded when the
 * migration is decided meanwhile, and StreamsFull at its beginning. All iterations together keep to the pace of the
 * host.
 */
export class SourceReads {
  readonly #context: SourceContext
  readonly #moves: Moves
  readonly #places: CopyPlaces
  readonly #ending: AbortSignal
  /** The streams of each offer that have not ended. Each holds a file and the bytes that it has read ahead. */
  readonly #streams = new Places<MigrationId>(limits.streamsPerOfferMax)

  constructor(context: SourceContext, { moves, places, ending }: Parts) {
    this.#context = context
    this.#moves = moves
    this.#places = places
    this.#ending = ending
  }

  /** Reads a round as frames and their end; see `DiskRounds.frames`. */
  async roundFrames(
    move: Move,
    { number, from }: { readonly number: number; readonly from: number },
    signal: AbortSignal,
  ): Answered<Bytes> {
    const { arrival } = move
    const found = this.#moves.readable(move)
    if (!found.ok) return found
    const { record } = found.value
    const { id } = record
    const open = (until: AbortSignal): Bytes =>
      this.#context.host.rounds.frames({ id, arrival, number }, from, until)
    return ok(this.#paced(move.id, record, { isWanted: () => this.#moves.readable(move).ok, open, signal }))
  }

  /** Reads the saved memory of a guest that is handed over; see `SavedStates.frames`. */
  async memoryFrames(move: Move, from: number, signal: AbortSignal): Answered<Bytes> {
    const found = this.#handedOver(move)
    if (!found.ok) return found
    const { record } = found.value
    const open = (until: AbortSignal): Bytes => this.#context.host.savedStates.frames(record.id, from, until)
    return ok(this.#paced(move.id, record, { isWanted: () => this.#moves.readable(move).ok, open, signal }))
  }

  /** Reads the kernel or the initrd of the VM; `unknown` for any other image. */
  async image(move: Pick<Move, 'id' | 'node'>, sha256: Sha256, signal: AbortSignal): Answered<Bytes> {
    const found = this.#moves.undecided(move)
    if (!found.ok) return found
    const { record } = found.value
    const { kernelSha256, initrdSha256 } = record.desired.image
    if (sha256 !== kernelSha256 && sha256 !== initrdSha256) return err('unknown')
    const open = (until: AbortSignal): Bytes => this.#context.host.storage.readImage(sha256, until)
    const isWanted = (): boolean => this.#moves.isUndecided(record.id, move)
    // It is read before the first round, for which a place is asked. So it has none, nor keeps one.
    return ok(this.#paced(move.id, record, { isWanted, takesPlace: false, open, signal }))
  }

  /**
   * Returns the console's newest session, for its destination; undefined if the VM has none. It is whole, because a
   * guest that is down for the handover has no terminal: waits until it is taken.
   */
  async console(move: Move, signal: AbortSignal): Answered<MovedConsole | undefined> {
    const { consoles } = this.#context.host
    const { clock } = this.#context
    for (let waitedMs = 0; ; waitedMs += limits.consoleDetachLookMs) {
      const found = this.#handedOver(move)
      if (!found.ok) return found
      const { id } = found.value.record
      const isWhole = consoles.session(id)?.isAttached !== true
      if (isWhole || waitedMs >= limits.consoleDetachMsMax) return ok(consoles.history(id))
      await pause(clock, limits.consoleDetachLookMs, AbortSignal.any([signal, this.#ending]))
    }
  }

  /**
   * Returns the packets that are held for the guest behind the number `after`; waits for the first one, if there is
   * none. Those up to `after` are forgotten once the VM is released: until then the guest may go on here, and needs
   * them.
   */
  async heldPackets(
    move: Move,
    { after, waitMs }: { readonly after: number; readonly waitMs: number },
    signal: AbortSignal,
  ): Answered<readonly HeldPacket[]> {
    const found = this.#holding(move)
    if (!found.ok) return found
    const { id, host, desired } = found.value
    if (desired.network === undefined) return ok([])
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancels = [
      this.#context.host.traffic.watchHeld((userId) => {
        if (userId === host.userId) resolve()
      }),
      this.#context.store.onVmChange((changed) => {
        if (changed === id) resolve()
      }),
      this.#context.clock.after(waitMs, resolve),
    ]
    try {
      const held = await this.#held(move, after)
      if (!held.ok || held.value.length > 0) return held
      await abortable(promise, AbortSignal.any([signal, this.#ending]))
      return await this.#held(move, after)
    } finally {
      for (const cancel of cancels) cancel()
    }
  }

  async #held(move: Move, after: number): Answered<readonly HeldPacket[]> {
    const found = this.#holding(move)
    if (!found.ok) return found
    const { departure, host } = found.value
    const forgotten = departure?.stage === 'released' ? after : 0
    const packets = await this.#context.host.traffic.keepHeldAfter(host, forgotten)
    return ok(packets.filter(({ number }) => number > after))
  }

  /** Returns the VM whose frames are held for a destination, or why there are none. */
  #holding(move: Move): Result<VmRecord, SourceRefusal> {
    const found = this.#moves.find(move)
    if (!found.ok) return found
    const { record, departure } = found.value
    const { stage, arrival } = departure
    if (stage === 'withdrawn') return err('withdrawn')
    if (arrival !== move.arrival) return err('not_yours')
    if (stage === 'offered' || stage === 'copying') return err('too_early')
    return record === undefined ? err('released') : ok(record)
  }

  /** Returns the VM whose guest is handed over to this attempt, or why it is not. */
  #handedOver(move: Move): Result<Undecided, SourceRefusal> {
    const found = this.#moves.readable(move)
    return found.ok && found.value.departure.stage !== 'handed_over' ? err('too_early') : found
  }

  async *#paced(
    offer: MigrationId,
    { id }: VmRecord,
    { open, signal, ...terms }: Opened,
  ): AsyncGenerator<Uint8Array, void> {
    const release = this.#streams.take(offer)
    if (release === undefined) throw new StreamsFull(`${limits.streamsPerOfferMax} streams are open`)
    const copy = this.#places.begin(id, terms, signal)
    try {
      for await (const chunk of open(copy.signal)) {
        await this.#context.pace(chunk.length, copy.signal)
        copy.signal.throwIfAborted()
        yield chunk
      }
    } finally {
      copy.end()
      release()
    }
  }
}
