import type { VmId } from '../../src/core/ids.ts'

/** A guest's memory, reduced to two facts: its life, and the progress of that life. */
export type GuestMemory = {
  /** Replaced by each boot. */
  readonly life: number
  /** Grows while the guest runs. */
  readonly progress: number
}

/** The file that a fake monitor wrote of a guest. */
export type SavedFile = {
  readonly id: VmId
  readonly memory: GuestMemory
  /** False if the file was cut short or altered; no monitor restores from it. */
  readonly whole: boolean
}

/**
 * The files of saved guests on a fake host, by path: its monitors write and read them, its pool moves and removes them.
 */
export class SavedFiles {
  readonly #files = new Map<string, SavedFile>()

  at(path: string): SavedFile | undefined {
    return this.#files.get(path)
  }

  write(path: string, file: SavedFile): void {
    this.#files.set(path, file)
  }

  /** Moves a file; a missing file is ignored. */
  move(from: string, to: string): void {
    const file = this.#files.get(from)
    if (file === undefined) return
    this.#files.delete(from)
    this.#files.set(to, file)
  }

  remove(path: string): void {
    this.#files.delete(path)
  }

  /** Alters the file, as a failing disk does. */
  damage(path: string): void {
    const file = this.#files.get(path)
    if (file !== undefined) this.#files.set(path, { ...file, whole: false })
  }

  paths(): readonly string[] {
    return [...this.#files.keys()]
  }
}
