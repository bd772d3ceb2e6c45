import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import { SharedLook } from '../../lib/shared-look.ts'

/** The installed program of a monitor. It is asked for its version again only when its file has changed. */
export class InstalledProgram<Version> {
  readonly #program: string
  readonly #ask: (program: string) => Promise<Version>
  readonly #files: SharedLook<string>
  #known: { readonly file: string; readonly version: Promise<Version> } | undefined
  /** The version that was last seen; undefined before the first. */
  lastVersion: Version | undefined
  /** Why the last look failed; undefined if it did not. */
  lastFailure: unknown

  /** @param ask runs the program, and throws HostFault `monitor_missing` if it cannot */
  constructor(program: string, ask: (program: string) => Promise<Version>) {
    this.#program = program
    this.#ask = ask
    this.#files = new SharedLook(() => identityOf(program))
  }

  /** Returns the version. Throws HostFault `monitor_missing`. */
  async version(): Promise<Version> {
    try {
      this.lastVersion = await this.#look()
      this.lastFailure = undefined
      return this.lastVersion
    } catch (error) {
      this.lastFailure = error
      throw error
    }
  }

  async #look(): Promise<Version> {
    const file = await this.#files.take()
    if (this.#known?.file !== file) {
      const version = this.#ask(this.#program)
      const known = { file, version }
      this.#known = known
      version.catch(() => {
        if (this.#known === known) this.#known = undefined
      })
    }
    return this.#known.version
  }
}

/** Identifies the file of a program, because an upgrade replaces it. */
async function identityOf(program: string): Promise<string> {
  try {
    const { dev, ino, mtimeNs, size } = await stat(program, { bigint: true })
    return [dev, ino, mtimeNs, size].join(' ')
  } catch (error) {
    throw new HostFault('monitor_missing', `looking for ${basename(program)}`, { cause: error })
  }
}
