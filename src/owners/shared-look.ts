/**
 * One look for all who ask at once. Each gets one that began after it asked, so that nobody is told what was so before;
 * two never run at the same time.
 */
export class SharedLook<T> {
  readonly #look: () => Promise<T>
  #running: Promise<T> | undefined
  /** Begins when the running one ends, however that ends. */
  #next: Promise<T> | undefined

  constructor(look: () => Promise<T>) {
    this.#look = look
  }

  take(): Promise<T> {
    if (this.#next !== undefined) return this.#next
    if (this.#running === undefined) return this.#begin()
    const begin = (): Promise<T> => this.#begin()
    this.#next = this.#running.then(begin, begin)
    return this.#next
  }

  #begin(): Promise<T> {
    this.#next = undefined
    this.#running = this.#look().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }
}
