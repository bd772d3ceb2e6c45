import type { VmId } from '../ids.ts'

/** Places for the viewers of each VM; a viewer that leaves gives its place back. */
export class Places {
  readonly #perVm: number
  readonly #taken = new Map<VmId, number>()

  constructor(perVm: number) {
    this.#perVm = perVm
  }

  taken(id: VmId): number {
    return this.#taken.get(id) ?? 0
  }

  /**
   * Takes a place. Returns the function that gives it back, which may be called again; undefined if all places are
   * taken.
   */
  take(id: VmId): (() => void) | undefined {
    if (this.taken(id) >= this.#perVm) return undefined
    this.#add(id, 1)
    let held = true
    return () => {
      if (held) this.#add(id, -1)
      held = false
    }
  }

  #add(id: VmId, change: 1 | -1): void {
    const taken = this.taken(id) + change
    if (taken === 0) this.#taken.delete(id)
    else this.#taken.set(id, taken)
  }
}
