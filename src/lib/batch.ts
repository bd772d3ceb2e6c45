type Waiting<Item> = {
  readonly item: Item
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
}

/**
 * Does work for many items at once whose cost hardly depends on how many they are. Items that come while one batch is
 * under way make up the next one.
 */
export class Batch<Item> {
  readonly #work: (items: readonly Item[]) => Promise<ReadonlyMap<Item, Error>>
  #waiting: Waiting<Item>[] = []
  #working = false

  /** @param work returns the items that failed, with the reasons. If it throws, all items fail with what it throws. */
  constructor(work: (items: readonly Item[]) => Promise<ReadonlyMap<Item, Error>>) {
    this.#work = work
  }

  /** Resolves when the work for this item is done. */
  add(item: Item): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#waiting.push({ item, resolve, reject })
    if (!this.#working) void this.#workOff()
    return promise
  }

  async #workOff(): Promise<void> {
    this.#working = true
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      try {
        const failed = await this.#work(batch.map(({ item }) => item))
        for (const { item, resolve, reject } of batch) {
          const error = failed.get(item)
          if (error === undefined) resolve()
          else reject(error)
        }
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#working = false
  }
}
