import { appendFileSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { parseVmId } from '../../core/ids.ts'
import { ConsoleHistory } from './console-history.ts'
import type { VmId } from '../../core/ids.ts'
import type { MovedConsole } from '../../ports/consoles.ts'

/** Suffixes for other files. A VM id has no dot, so these are never names of a history. */
const INPUT = '.input'
const NEW = '.new'

/** Keeps the histories of all consoles: a file for each, named after its VM, in a directory that only root can open. */
export class HistoryFiles {
  readonly #directory: string

  /** The directory is made when it is needed. */
  constructor(directory: string) {
    this.#directory = directory
  }

  /**
   * Begins a session, or continues one of another host, beside any earlier one until `keep`. Throws an error with an
   * errno, e.g. ENOSPC.
   */
  create(id: VmId, moved?: MovedConsole): ConsoleHistory {
    this.#ensureDirectory()
    return ConsoleHistory.create(this.#path(id, NEW), moved)
  }

  /** Replaces the earlier session by the one that was created last. */
  keep(id: VmId): void {
    renameSync(this.#path(id, NEW), this.#path(id))
    this.removeInput(id)
  }

  /** Removes the session that was created last. */
  discard(id: VmId): void {
    rmSync(this.#path(id, NEW), { force: true })
  }

  /** Continues a session; throws if that is impossible, ENOENT if there is none. */
  open(id: VmId): ConsoleHistory {
    return ConsoleHistory.open(this.#path(id))
  }

  remove(id: VmId): void {
    for (const suffix of ['', NEW, INPUT]) rmSync(this.#path(id, suffix), { force: true })
  }

  /**
   * Returns the VMs that have a history. Removes files that are not a VM's history, and sessions that were created but
   * not kept.
   */
  list(): readonly VmId[] {
    this.#ensureDirectory()
    return readdirSync(this.#directory).flatMap((name) => {
      const id = parseVmId(name)
      if (id !== undefined) return [id]
      // A file name cannot contain a path to another directory.
      if (!name.endsWith(INPUT)) rmSync(`${this.#directory}/${name}`, { force: true, recursive: true })
      return []
    })
  }

  /** Keeps input for the next terminal of a session. Throws an error with an errno. */
  addInput(id: VmId, bytes: Uint8Array): void {
    appendFileSync(this.#path(id, INPUT), bytes, { mode: 0o600 })
  }

  input(id: VmId): Uint8Array {
    const path = this.#path(id, INPUT)
    const found = statSync(path, { throwIfNoEntry: false })
    return found === undefined ? new Uint8Array(0) : readFileSync(path)
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
