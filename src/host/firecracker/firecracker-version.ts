import { basename } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import { run } from '../exec/exec.ts'

/** The version of a program, e.g. `1.16.1`, and of the states that it saves, e.g. `10.0.0`. */
export type FirecrackerVersion = { readonly version: string; readonly format: string }

/** Returns the versions of a Firecracker program. Throws HostFault `monitor_missing` if it cannot be run. */
export async function firecrackerVersion(program: string): Promise<FirecrackerVersion> {
  const doing = `asking ${basename(program)} for its version`
  try {
    const [version, format] = await Promise.all([
      run([program, '--version']),
      run([program, '--snapshot-version']),
    ])
    const [, first] = /^Firecracker v(\d+\.\d+\.\d+)/.exec(version.stdout) ?? []
    const [, second] = /^v(\d+\.\d+\.\d+)$/m.exec(format.stdout) ?? []
    if (first !== undefined && second !== undefined) return { version: first, format: second }
  } catch (error) {
    throw new HostFault('monitor_missing', doing, { cause: error })
  }
  throw new HostFault('monitor_missing', `${doing}: it does not answer like Firecracker`)
}
