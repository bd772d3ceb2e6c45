import { HostFault } from '../../core/errors.ts'
import { run } from '../exec/exec.ts'

/** The version of a QEMU program, e.g. `10.0.2`. Throws HostFault `monitor_missing` where it cannot be run. */
export async function qemuVersion(program: string): Promise<string> {
  const doing = `asking ${program} for its version`
  try {
    const { stdout } = await run([program, '--version'])
    const version = /\bversion (\d+(?:\.\d+)+)/.exec(stdout)?.[1]
    if (version !== undefined) return version
  } catch (error) {
    throw new HostFault('monitor_missing', doing, { cause: error })
  }
  throw new HostFault('monitor_missing', `${doing}: it does not answer like QEMU`)
}
