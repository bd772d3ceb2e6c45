import { chmodSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { limits } from '../../config/limits.ts'
import { errorChain } from '../../log/error-chain.ts'
import type { Log } from '../../log/log.ts'
import { mountFilesystem } from '../ffi/mount.ts'

/**
 * Puts the runtime directories of all units into a small file system of their own, so that no monitor can fill `/run`. It
 * stays until the host shuts down. A directory that is in use is left as it is: a mount would hide the sockets of running
 * monitors. Without this file system, units start all the same.
 */
export function ensureRuntimeRoom(directory: string, log: Log): void {
  try {
    mkdirSync(directory, { recursive: true })
    // Monitors of all users pass through it, whatever our umask is.
    chmodSync(directory, 0o755)
    if (statSync(directory).dev !== statSync(dirname(directory)).dev) return
    if (readdirSync(directory).length > 0) {
      log.info({ directory }, 'monitors can fill the file system of their sockets until the host boots again')
      return
    }
    const { monitorRuntimeMib: mib, monitorRuntimeFilesMax: files } = limits
    mountFilesystem('tmpfs', directory, `mode=0755,size=${mib}m,nr_inodes=${files}`)
  } catch (error) {
    log.warn({ directory, error: errorChain(error) }, 'monitors can fill the file system of their sockets')
  }
}
