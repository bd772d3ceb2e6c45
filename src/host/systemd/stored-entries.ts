/** A stored descriptor: its name, and its file's numbers from fstat(2). */
export type Entry = {
  readonly name: string
  readonly inode: bigint
  readonly major: number
  readonly minor: number
}

/**
 * The descriptors that systemd keeps. It is changed in place, because with a thousand VMs a copy for each one that
 * comes would take longer than the store itself.
 */
export class StoredEntries {
  #entries: Entry[]
  readonly #names: Set<string>

  constructor(entries: readonly Entry[]) {
    this.#entries = [...entries]
    this.#names = new Set(entries.map(({ name }) => name))
  }

  /** The number of descriptors. systemd may keep several of one name. */
  get count(): number {
    return this.#entries.length
  }

  /** The names as they are at the time of each use. */
  get names(): ReadonlySet<string> {
    return this.#names
  }

  some(isIt: (entry: Entry) => boolean): boolean {
    return this.#entries.some(isIt)
  }

  /** Returns how many descriptors have one of the names. */
  countOf(names: ReadonlySet<string>): number {
    return this.#entries.filter(({ name }) => names.has(name)).length
  }

  add(entries: readonly Entry[]): void {
    this.#entries.push(...entries)
    for (const { name } of entries) this.#names.add(name)
  }

  /** Removes all descriptors of these names. */
  remove(names: ReadonlySet<string>): void {
    this.#entries = this.#entries.filter(({ name }) => !names.has(name))
    for (const name of names) this.#names.delete(name)
  }
}
