import { limits } from '../../config/limits.ts'
import { isHandover } from '../../core/migration/departure.ts'
import type { VmId } from '../../core/ids.ts'
import type { DepartureContext } from './context.ts'

export type CopyTerms = {
  readonly isWanted: () => boolean
  /** Whether the VM has a place meanwhile. Absent: it has. */
  readonly takesPlace?: boolean
}

/** Something that goes on for a destination, such as a stream. */
type Copy = Required<CopyTerms> & {
  readonly abort: AbortController
  /** Gives its part of the place back. Safe to repeat. */
  readonly end: () => void
}
/** The copies of a VM. `restsSinceMs`: when the last copy ended that took a place; absent if there was none. */
type Place = { readonly copies: Set<Copy>; restsSinceMs?: number }

/** Ends a copy whose migration is decided, or belongs to another destination by now. */
export class CopyEnded extends Error {
  override readonly name: string = 'CopyEnded'
}

/** Refuses a stream, because its destination has as many as it may. */
export class StreamsFull extends CopyEnded {
  override readonly name = 'StreamsFull'
}

/**
 * Counts the VMs that are copied at once. A VM has a place while something goes on for its destination, and for a
 * moment after it, so that a destination that died gives the place up. A guest that is down for the handover always has
 * one.
 */
export class CopyPlaces {
  readonly #context: Pick<DepartureContext, 'store' | 'clock'>
  readonly #places = new Map<VmId, Place>()
  #isEnding = false

  constructor(context: Pick<DepartureContext, 'store' | 'clock'>) {
    this.#context = context
  }

  /** Returns whether other VMs have all places. */
  isFullFor(id: VmId): boolean {
    const { store, clock } = this.#context
    const restedMs = clock.monotonicMs() - limits.departureIdleMs
    const still = store.departures.undecided().filter(({ departure }) => departure && isHandover(departure))
    const others = new Set(still.map((record) => record.id))
    for (const [vm, { copies, restsSinceMs = -Infinity }] of this.#places) {
      const rests = restsSinceMs <= restedMs
      if (!rests || [...copies].some(({ takesPlace }) => takesPlace)) others.add(vm)
      else if (copies.size === 0) this.#places.delete(vm)
    }
    others.delete(id)
    return others.size >= limits.departuresAtOnceMax
  }

  /**
   * Begins something for the destination of a VM. The signal aborts with the caller's, or when it is not wanted any
   * more. Call `end` in any case.
   */
  begin(
    id: VmId,
    { isWanted, takesPlace = true }: CopyTerms,
    signal: AbortSignal,
  ): { readonly signal: AbortSignal; readonly end: () => void } {
    const place = this.#places.get(id) ?? { copies: new Set() }
    this.#places.set(id, place)
    const copy: Copy = {
      isWanted,
      takesPlace,
      abort: new AbortController(),
      end: () => {
        if (!place.copies.delete(copy)) return
        if (takesPlace) place.restsSinceMs = this.#context.clock.monotonicMs()
        this.#leave(id)
      },
    }
    place.copies.add(copy)
    return { signal: AbortSignal.any([signal, copy.abort.signal]), end: copy.end }
  }

  /** Ends what is not wanted after a change of the VM. */
  notice(id: VmId): void {
    for (const { isWanted, abort, end } of this.#places.get(id)?.copies ?? []) {
      if (isWanted()) continue
      // A stream whose destination takes nothing ends much later.
      end()
      abort.abort(new CopyEnded(`the copy of ${id} has ended`))
    }
    this.#leave(id)
  }

  /** Gives the place back at once if the migration of the VM is decided. */
  #leave(id: VmId): void {
    // A stream that hangs may end after the store was closed.
    if (this.#isEnding) return
    const isOver = this.#places.get(id)?.copies.size === 0 && !this.#context.store.departures.isUndecided(id)
    if (isOver) this.#places.delete(id)
  }

  /** Ends everything that goes on. */
  endAll(): void {
    this.#isEnding = true
    for (const { copies } of this.#places.values())
      for (const { abort } of copies) abort.abort(new CopyEnded('the daemon stops'))
  }
}
