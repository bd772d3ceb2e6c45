import { arrivalAfter, copiedFurther } from '../../core/migration/arrival.ts'
import { assert } from '../../lib/assert.ts'
import { Hindered } from './source-refused.ts'
import { StateUnwritable } from '../../store/database/transactions.ts'
import type { VmId } from '../../core/ids.ts'
import type { Arrival, ArrivalEvent, CopyProgress } from '../../core/migration/arrival.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { FairPlaces } from '../../lib/fair-places.ts'
import type { Log } from '../../log/log.ts'
import type { Host } from '../../ports/host.ts'
import type { MoveRef, SourceHost } from '../../ports/source-host.ts'
import type { Store } from '../../store/store.ts'
import type { BetweenPasses } from '../between-passes.ts'

/** The parts that the courses of all VMs that come to this host share. */
export type ArrivalContext = {
  readonly store: Store
  readonly host: Host
  readonly poke: (id: VmId, reason: string) => void
  readonly betweenPasses: BetweenPasses
  /** Limits the VMs that are copied at once. Sources with many VMs let those of others in between. */
  readonly places: FairPlaces
  readonly log: Log
}

/** One VM that comes: where it is, and its record. */
export class Pulling {
  readonly context: ArrivalContext
  readonly id: VmId
  readonly source: SourceHost
  readonly move: MoveRef
  readonly signal: AbortSignal

  constructor(context: ArrivalContext, record: VmRecord, signal: AbortSignal) {
    const { arrival } = record
    assert(arrival !== undefined, `${record.id} does not come from another host`)
    this.context = context
    this.id = record.id
    this.source = context.host.sourceHosts.at(arrival.source)
    this.move = { migrationId: arrival.migrationId, arrival: arrival.id }
    this.signal = signal
  }

  /** Returns a copy whose signal also aborts with `ending`. */
  until(ending: AbortSignal): Pulling {
    return new Pulling(this.context, this.record(), AbortSignal.any([this.signal, ending]))
  }

  /** Runs a part of an attempt. Ends it with Hindered if it takes longer: a source may send a little for ever. */
  async within<T>(ms: number, part: string, task: (bounded: Pulling) => Promise<T>): Promise<T> {
    const late = new AbortController()
    const cancel = this.context.host.clock.after(ms, () =>
      late.abort(new Hindered('source_unreachable', `${part} was not over after ${ms / 1000} s`)),
    )
    try {
      return await task(this.until(late.signal))
    } finally {
      cancel()
    }
  }

  /** Returns the record. Throws the signal's reason once the VM does not come any more. */
  record(): VmRecord & { readonly arrival: Arrival } {
    this.signal.throwIfAborted()
    const record = this.context.store.vms.get(this.id)
    assert(record?.arrival?.id === this.move.arrival, `${this.id}: another arrival`)
    return { ...record, arrival: record.arrival }
  }

  arrival(): Arrival {
    return this.record().arrival
  }

  /** Stores an event. Throws the signal's reason once the VM does not come any more. */
  advance(event: ArrivalEvent): Arrival {
    return this.#change((before) => arrivalAfter(before, event))
  }

  /** Shows how much of a round is copied. See {@link copiedFurther} for what is over then. */
  show(progress: CopyProgress): void {
    try {
      this.#change((before) => copiedFurther(before, progress))
    } catch (error) {
      // A round is not read again from its beginning because of what is shown of it.
      if (!(error instanceof StateUnwritable)) throw error
    }
  }

  /** Notes that the source has answered. What kept the VM from coming is over then. */
  noteAnswer(): void {
    this.#change((before) => {
      const { trouble, ...arrival } = before
      return trouble === undefined ? before : arrival
    })
  }

  #change(changed: (before: Arrival) => Arrival): Arrival {
    const { store, host, poke } = this.context
    const [before, after] = store.transaction(() => {
      const arrival = this.arrival()
      const next = changed(arrival)
      if (next !== arrival) store.arrivals.set(this.id, next, host.clock.now())
      return [arrival, next] as const
    })
    // The error that is shown ends with the next pass.
    if (before.trouble !== undefined && after.trouble === undefined) poke(this.id, 'arrival goes on')
    return after
  }
}
