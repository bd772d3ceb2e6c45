import { closeSync, constants, existsSync, openSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { run } from './run.ts'

const DEVICE = '/dev/fuse'

export type HungMount = {
  /** Ends the server, and with it every call that hangs; the mount point is free again. */
  readonly end: () => Promise<void>
}

/**
 * Mounts a file system whose server never answers, like that of a host that is gone: a FUSE connection (kernel:
 * filesystems/fuse.rst) whose other end is held open and not read. Every access to it hangs.
 */
export async function hangAt(mountPoint: string): Promise<HungMount> {
  if (!existsSync(DEVICE)) await run(['mknod', DEVICE, 'c', '10', '229'])
  const device = openSync(DEVICE, constants.O_RDWR)
  const options = 'fd=3,rootmode=40000,user_id=0,group_id=0,allow_other'
  const { status, stderr } = spawnSync(
    'mount',
    ['-i', '-t', 'fuse', '-o', options, 'dead-server', mountPoint],
    {
      stdio: ['ignore', 'ignore', 'pipe', device],
      encoding: 'utf8',
    },
  )
  if (status !== 0) throw new Error(`mounting a dead file system: ${stderr}`)
  return {
    end: async () => {
      closeSync(device)
      await run(['umount', '--lazy', mountPoint])
    },
  }
}
