import { limits } from '../../config/limits.ts'

/**
 * Keeps answers as the bytes that are sent, until the store has another revision. Each change that a reader can see has
 * a revision of its own (`src/store/database/revisions.ts`). A controller asks often, and VMs at rest do not change.
 */
export class KeptAnswers {
  #revision: number | undefined
  readonly #byQuery = new Map<string, Buffer>()

  /** Returns the answer to a query at this revision. `make` returns its text. */
  take(revision: number, query: object, make: () => string): Buffer {
    if (revision !== this.#revision) this.#byQuery.clear()
    this.#revision = revision
    const key = JSON.stringify(query)
    const kept = this.#byQuery.get(key)
    if (kept !== undefined) return kept
    if (this.#byQuery.size >= limits.keptAnswersMax) this.#byQuery.clear()
    const body = Buffer.from(make())
    this.#byQuery.set(key, body)
    return body
  }
}
