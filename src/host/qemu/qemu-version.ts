import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import { run } from '../exec/exec.ts'

/** Returns the version of a QEMU program, e.g. `10.0.2`. Throws HostFault `monitor_missing` if it cannot be run. */
export async function qemuVersion(program: string): Promise<string> {
  const doing = `asking ${basename(program)} for its version`
  try {
    const { stdout } = await run([program, '--version'])
    const version = /\bversion (\d+(?:\.\d+)+)/.exec(stdout)?.[1]
    if (version !== undefined) return version
  } catch (error) {
    throw new HostFault('monitor_missing', doing, { cause: error })
  }
  throw new HostFault('monitor_missing', `${doing}: it does not answer like QEMU`)
}

/**
 * Returns the version in a monitor's greeting (QEMU QMP Reference Manual, VersionInfo), in the form of {@link
 * qemuVersion}; undefined if the greeting has none.
 */
export function greetedVersion(greeting: unknown): string | undefined {
  const { version } = (greeting ?? {}) as { version?: { qemu?: Record<string, unknown> } }
  const { major, minor, micro } = version?.qemu ?? {}
  const parts = [major, minor, micro]
  return parts.every((part) => typeof part === 'number') ? parts.join('.') : undefined
}

/** The installed program. It is run again only when its file has changed. */
export class InstalledQemu {
  readonly #program: string
  #known: { readonly file: string; readonly version: Promise<string> } | undefined
  /** The version that was last seen; undefined before the first. */
  lastVersion: string | undefined

  constructor(program: string) {
    this.#program = program
  }

  /** Returns the version. Throws HostFault `monitor_missing`. */
  async version(): Promise<string> {
    const file = await this.#identity()
    if (this.#known?.file !== file) {
      const version = qemuVersion(this.#program)
      const known = { file, version }
      this.#known = known
      version.catch(() => {
        if (this.#known === known) this.#known = undefined
      })
    }
    this.lastVersion = await this.#known.version
    return this.lastVersion
  }

  /** Identifies the file, because an upgrade replaces it. */
  async #identity(): Promise<string> {
    try {
      const { dev, ino, mtimeNs, size } = await stat(this.#program, { bigint: true })
      return [dev, ino, mtimeNs, size].join(' ')
    } catch (error) {
      throw new HostFault('monitor_missing', `looking for ${basename(this.#program)}`, { cause: error })
    }
  }
}
