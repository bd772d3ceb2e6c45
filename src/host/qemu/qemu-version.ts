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
