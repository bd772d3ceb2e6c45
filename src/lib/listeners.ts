/** Who wants to hear of one thing, in the order in which they asked. */
export class Listeners<Args extends readonly unknown[] = []> {
  readonly #listeners = new Set<{ readonly call: (...args: Args) => void }>()

  /** Returns what stops it; the same listener may be added twice. */
  add(listener: (...args: Args) => void): () => void {
    const entry = { call: listener }
    this.#listeners.add(entry)
    return () => void this.#listeners.delete(entry)
  }

  /** Tells those who are there now; one that another stops meanwhile does not hear of it. */
  tell(...args: Args): void {
    for (const entry of [...this.#listeners]) if (this.#listeners.has(entry)) entry.call(...args)
  }
}
