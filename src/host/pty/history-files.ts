import { appendFileSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { parseVmId } from '../../core/vm/ids.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { ConsoleHistory } from './console-history.ts'
import type { VmId } from '../../core/vm/ids.ts'

/** No VM id has a dot, so these are names of no history. */
const INPUT = '.input'
const NEW = '.new'

/** Where the histories of all consoles are kept: a file each, named after its VM, in a directory for root alone. */
export class HistoryFiles {
  readonly #directory: string

  /** The directory is made when it is needed. */
  constructor(directory: string) {
    this.#directory = directory
  }

  /** Begins a session, beside any earlier one until `keep`. Throws an error with an errno, e.g. ENOSPC. */
  create(id: VmId): ConsoleHistory {
    this.#ensureDirectory()
    return ConsoleHistory.create(this.#path(id, NEW))
  }

  /** The session that was created last takes the place of the earlier one. */
  keep(id: VmId): void {
    renameSync(this.#path(id, NEW), this.#path(id))
    this.removeInput(id)
  }

  /** The session that was created last is not wanted. */
  discard(id: VmId): void {
    rmSync(this.#path(id, NEW), { force: true })
  }

  /** Goes on with a session; throws where that cannot be, with ENOENT where there is none. */
  open(id: VmId): ConsoleHistory {
    return ConsoleHistory.open(this.#path(id))
  }

  remove(id: VmId): void {
    for (const suffix of ['', NEW, INPUT]) rmSync(this.#path(id, suffix), { force: true })
  }

  /** VMs that have a history. Removes what is the history of no VM, and what was created and not kept. */
  list(): readonly VmId[] {
    this.#ensureDirectory()
    return readdirSync(this.#directory).flatMap((name) => {
      const id = parseVmId(name)
      if (id !== undefined) return [id]
      // No name of a file is a path elsewhere.
      if (!name.endsWith(INPUT)) rmSync(`${this.#directory}/${name}`, { force: true, recursive: true })
      return []
    })
  }

  /** Keeps input for the next terminal of a session; throws an error with an errno. */
  addInput(id: VmId, bytes: Uint8Array): void {
    appendFileSync(this.#path(id, INPUT), bytes, { mode: 0o600 })
  }

  input(id: VmId): Uint8Array {
    try {
      return readFileSync(this.#path(id, INPUT))
    } catch (error) {
      if (hasErrno(error, 'ENOENT')) return new Uint8Array(0)
      throw error
    }
  }

  removeInput(id: VmId): void {
    rmSync(this.#path(id, INPUT), { force: true })
  }

  #ensureDirectory(): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
  }

  #path(id: VmId, suffix = ''): string {
    return `${this.#directory}/${id}${suffix}`
  }
}
