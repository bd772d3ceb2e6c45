import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import { run } from '../exec/exec.ts'

/** The version of a QEMU program, e.g. `10.0.2`. Throws HostFault `monitor_missing` where it cannot be run. */
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
 * The version that a monitor's greeting tells (QEMU QMP Reference Manual, VersionInfo), in the words of
 * {@link qemuVersion}; undefined where the greeting has none.
 */
export function greetedVersion(greeting: unknown): string | undefined {
  const { version } = (greeting ?? {}) as { version?: { qemu?: Record<string, unknown> } }
  const { major, minor, micro } = version?.qemu ?? {}
  const parts = [major, minor, micro]
  return parts.every((part) => typeof part === 'number') ? parts.join('.') : undefined
}

/** The installed program, which is run only when its file is another. */
export class InstalledQemu {
  readonly #program: string
  #known: { readonly file: string; readonly version: Promise<string> } | undefined
  /** As last told; undefined before. */
  lastVersion: string | undefined

  constructor(program: string) {
    this.#program = program
  }

  /** Throws HostFault `monitor_missing`. */
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

  /** An upgrade puts another file in its place. */
  async #identity(): Promise<string> {
    try {
      const { dev, ino, mtimeNs, size } = await stat(this.#program, { bigint: true })
      return [dev, ino, mtimeNs, size].join(' ')
    } catch (error) {
      throw new HostFault('monitor_missing', `looking for ${basename(this.#program)}`, { cause: error })
    }
  }
}
