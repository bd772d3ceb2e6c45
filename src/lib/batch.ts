type Waiting<Item, Answer> = {
  readonly item: Item
  readonly resolve: (answer: Answer | undefined) => void
  readonly reject: (reason: unknown) => void
}

/**
 * Does work for many items at once whose cost hardly depends on how many they are. Items that come while one batch is
 * under way make up the next one.
 */
export class Batch<Item, Answer> {
  readonly #work: (items: readonly Item[]) => Promise<ReadonlyMap<Item, Answer>>
  #waiting: Waiting<Item, Answer>[] = []
  #working = false

  /** @param work returns an answer for some of the items. If it throws, all items fail with what it throws. */
  constructor(work: (items: readonly Item[]) => Promise<ReadonlyMap<Item, Answer>>) {
    this.#work = work
  }

  /** Resolves when the work for this item is done, with the answer; undefined if there is none for the item. */
  add(item: Item): Promise<Answer | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer | undefined>()
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
        const answers = await this.#work(batch.map(({ item }) => item))
        for (const { item, resolve } of batch) resolve(answers.get(item))
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#working = false
  }
}
