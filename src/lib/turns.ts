import { Semaphore } from './semaphore.ts'

/**
 * Runs the tasks of one key one after another, in order of arrival; tasks of different keys do not wait for each other.
 */
export class Turns<Key> {
  readonly #keys = new Map<Key, { readonly turn: Semaphore; tasks: number }>()

  /** Rejects with the signal's reason if it aborts before the turn of the task; the task then never runs. */
  async run<T>(key: Key, task: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const entry = this.#keys.get(key) ?? { turn: new Semaphore(1), tasks: 0 }
    this.#keys.set(key, entry)
    entry.tasks += 1
    try {
      return await entry.turn.run(task, signal)
    } finally {
      entry.tasks -= 1
      if (entry.tasks === 0) this.#keys.delete(key)
    }
  }
}
