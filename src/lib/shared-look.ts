/**
 * Shares one look among calls at the same time. Each call gets a look that began after the call, so its answer is never
 * outdated. Two looks never run at the same time.
 */
export class SharedLook<T> {
  readonly #look: () => Promise<T>
  #running: Promise<T> | undefined
  /** Begins when the running look ends, even if that fails. */
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
