import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'

/** Turns of the event loop that a flush takes: enough for a pass over fakes to do something meanwhile. */
const FLUSH_TURNS = 2

/** The disk under a store's database: only flushed data survives a loss of power. */
export class StateDisk {
  readonly directory: string
  #flushed: ReadonlyMap<string, Buffer> = new Map()
  #power = { isOn: true }

  constructor(directory: string) {
    this.directory = directory
  }

  get isOn(): boolean {
    return this.#power.isOn
  }

  /** Keeps the present content of the files. Never resolves if the power fails before the end. */
  readonly flush = async (): Promise<void> => {
    const power = this.#power
    const files = new Map(this.#names().map((name) => [name, readFileSync(join(this.directory, name))]))
    for (let turn = 0; turn < FLUSH_TURNS; turn += 1) await setImmediate()
    if (!power.isOn) await new Promise(() => {})
    this.#flushed = files
  }

  losePower(): void {
    this.#power.isOn = false
  }

  /** Restores the flushed content. The caller has closed the database. */
  restorePower(): void {
    for (const name of this.#names()) rmSync(join(this.directory, name))
    for (const [name, content] of this.#flushed) writeFileSync(join(this.directory, name), content)
    this.#power = { isOn: true }
  }

  /**
   * Returns the disk with its flushed content in another directory, for a former life that still has the files open.
   */
  restoredIn(directory: string): StateDisk {
    for (const [name, content] of this.#flushed) writeFileSync(join(directory, name), content)
    const restored = new StateDisk(directory)
    restored.#flushed = this.#flushed
    return restored
  }

  /**
   * The database and its log. SQLite makes the index of the log from it (sqlite.org/walformat, "The WAL-Index File").
   */
  #names(): string[] {
    return readdirSync(this.directory).filter((name) => /^vmhostd\.db(-wal)?$/.test(name))
  }
}
