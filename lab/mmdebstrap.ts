import { checkout } from '../tools/paths.ts'
import type { StepLog } from '../tools/step.ts'

/**
 * Makes a tree of packages. mmdebstrap mounts file systems in it, and unmounts them only if it comes to its end. They
 * are in a namespace of that one command, so nothing stays mounted however it ends.
 */
export const mmdebstrap = (args: readonly string[], log: Pick<StepLog, 'run'>): Promise<string> =>
  log.run(['unshare', '--mount', '--propagation=private', 'mmdebstrap', '--mode=root', ...args], {
    cwd: checkout,
    // sbin is missing from the PATH of some logins, and dpkg refuses to work without it.
    env: { ...process.env, PATH: `/usr/sbin:/sbin:${process.env['PATH']}`, SYSTEMD_OFFLINE: '1' },
  })
