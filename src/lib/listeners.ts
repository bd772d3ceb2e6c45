/** Listeners for one event, called in the order in which they were added. */
export class Listeners<Args extends readonly unknown[] = []> {
  readonly #listeners = new Set<{ readonly call: (...args: Args) => void }>()

  /** Returns the function that removes the listener; the same listener may be added twice. */
  add(listener: (...args: Args) => void): () => void {
    const entry = { call: listener }
    this.#listeners.add(entry)
    return () => void this.#listeners.delete(entry)
  }

  clear(): void {
    this.#listeners.clear()
  }

  /** Calls all present listeners; a listener that another one removes meanwhile is not called. */
  notify(...args: Args): void {
    for (const entry of [...this.#listeners]) if (this.#listeners.has(entry)) entry.call(...args)
  }
}
