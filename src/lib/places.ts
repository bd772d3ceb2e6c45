/** A bounded number of places for each owner, such as a VM or a client. */
export class Places<Owner> {
  readonly #most: number
  readonly #taken = new Map<Owner, number>()

  /** @param most places of one owner */
  constructor(most: number) {
    this.#most = most
  }

  taken(of: Owner): number {
    return this.#taken.get(of) ?? 0
  }

  /**
   * Takes a place. Returns the function that gives it back, which may be called again; undefined if all places are
   * taken.
   */
  take(of: Owner): (() => void) | undefined {
    if (this.taken(of) >= this.#most) return undefined
    this.#add(of, 1)
    let held = true
    return () => {
      if (held) this.#add(of, -1)
      held = false
    }
  }

  #add(of: Owner, change: 1 | -1): void {
    const taken = this.taken(of) + change
    if (taken === 0) this.#taken.delete(of)
    else this.#taken.set(of, taken)
  }
}
