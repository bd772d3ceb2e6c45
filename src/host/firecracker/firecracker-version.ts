import { basename } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import { run } from '../exec/exec.ts'

/** The version of a program, e.g. `1.16.1`, and of the states that it saves, e.g. `10.0.0`. */
export type FirecrackerVersion = { readonly version: string; readonly format: string }

/** Thrown for a program that is older than the daemon can use. */
export class TooOld extends HostFault {}

/**
 * Returns the versions of a Firecracker program. Throws TooOld, and HostFault `monitor_missing` if it cannot be run.
 */
export async function firecrackerVersion(program: string): Promise<FirecrackerVersion> {
  const doing = `asking ${basename(program)} for its version`
  let found: FirecrackerVersion | undefined
  try {
    const [version, format] = await Promise.all([
      run([program, '--version']),
      run([program, '--snapshot-version']),
    ])
    found = versionsIn(version.stdout, format.stdout)
  } catch (error) {
    throw new HostFault('monitor_missing', doing, { cause: error })
  }
  if (found === undefined)
    throw new HostFault('monitor_missing', `${doing}: it does not answer like Firecracker`)
  if (isTooOld(found.version))
    throw new TooOld(
      'monitor_missing',
      `${doing}: it is ${found.version}, and ${FIRST.join('.')} is the first that can be used: install a newer one`,
    )
  return found
}

/** Reads what the program prints; undefined if that is something else. */
export function versionsIn(version: string, format: string): FirecrackerVersion | undefined {
  const [, first] = /^Firecracker v(\d+\.\d+\.\d+)/.exec(version) ?? []
  const [, second] = /^v(\d+\.\d+\.\d+)$/m.exec(format) ?? []
  return first === undefined || second === undefined ? undefined : { version: first, format: second }
}

/** The first version that sets a guest's clock at its restore (CHANGELOG of 1.16.0, `clock_realtime`). */
const FIRST = [1, 16] as const

export function isTooOld(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major < FIRST[0] || (major === FIRST[0] && minor < FIRST[1])
}
