/**
 * Measures how long values have stayed the same, one value for each id, by a monotonic clock: the time of day may be
 * set. It knows only what it was given, so it counts from its own first look.
 */
export class UnchangedSince<Id, Value> {
  readonly #seen = new Map<Id, { readonly value: Value; readonly sinceMs: number }>()

  /** Notes a look; returns the milliseconds since the first look that found the same value. */
  note(id: Id, value: Value, monotonicMs: number): number {
    const known = this.#seen.get(id)
    if (known !== undefined && known.value === value) return monotonicMs - known.sinceMs
    this.#seen.set(id, { value, sinceMs: monotonicMs })
    return 0
  }

  /** Forgets an id: its next look is a first one. */
  forget(id: Id): void {
    this.#seen.delete(id)
  }

  /** Forgets all other ids. */
  keepOnly(ids: ReadonlySet<Id>): void {
    for (const id of this.#seen.keys()) if (!ids.has(id)) this.#seen.delete(id)
  }
}
