import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { ConsoleHistory } from './console-history.ts'
import type { VmId } from '../../core/vm/ids.ts'

/** Where the histories of all consoles are kept: a file each, named after its VM, in a directory for root alone. */
export class HistoryFiles {
  readonly #directory: string

  /** The directory is made when it is needed. */
  constructor(directory: string) {
    this.#directory = directory
  }

  /** Begins a session, in place of any earlier one. Throws an error with an errno, e.g. ENOSPC. */
  create(id: VmId): ConsoleHistory {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    return ConsoleHistory.create(this.#path(id))
  }

  /** Goes on with a session; throws where that cannot be, with ENOENT where there is none. */
  open(id: VmId): ConsoleHistory {
    return ConsoleHistory.open(this.#path(id))
  }

  remove(id: VmId): void {
    rmSync(this.#path(id), { force: true })
  }

  removeAllBut(kept: ReadonlySet<VmId>): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    for (const name of readdirSync(this.#directory)) {
      // No name of a file is a path elsewhere.
      if (!kept.has(name as VmId)) rmSync(`${this.#directory}/${name}`, { force: true, recursive: true })
    }
  }

  #path(id: VmId): string {
    return `${this.#directory}/${id}`
  }
}
