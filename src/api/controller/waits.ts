/**
 * Lets requests wait for a resource of one kind to change. It has one subscription, a set per resource, and a timer per
 * request: while nothing changes, nothing runs.
 */
export class Waits<Id extends string> {
  readonly #waiting = new Map<Id, Set<() => void>>()
  readonly #unsubscribe: () => void
  #ended = false

  constructor(subscribe: (listener: (id: Id) => void) => () => void) {
    this.#unsubscribe = subscribe((id) => this.#wake(id))
  }

  /** Number of requests that wait now. */
  get size(): number {
    return [...this.#waiting.values()].reduce((sum, waiting) => sum + waiting.size, 0)
  }

  /**
   * Resolves when the resource changed or is gone, after `ms`, on the signal, or when the listener closes. The caller
   * then looks again.
   */
  async change(id: Id, ms: number, signal: AbortSignal): Promise<void> {
    if (this.#ended || signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const onAbort = (): void => resolve()
    const waiting = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, waiting.add(resolve))
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', onAbort, { once: true })
    await promise
    // The signal of an event stream outlives its waits, of which there is no end.
    signal.removeEventListener('abort', onAbort)
    clearTimeout(timer)
    waiting.delete(resolve)
    if (waiting.size === 0 && this.#waiting.get(id) === waiting) this.#waiting.delete(id)
  }

  /** Ends all waits, and takes no new ones. */
  end(): void {
    this.#ended = true
    this.#unsubscribe()
    for (const id of this.#waiting.keys()) this.#wake(id)
  }

  #wake(id: Id): void {
    for (const resolve of this.#waiting.get(id) ?? []) resolve()
  }
}
