/** The runtime directories of units: the file system for all of them, and the files in each. */
import { chmodSync, constants, mkdirSync, readdirSync, statSync } from 'node:fs'
import { chmod, lchown, mkdir, open, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { limits } from '../../config/limits.ts'
import { errorChain } from '../../log/error-chain.ts'
import { mountFilesystem } from '../ffi/mount.ts'
import { assert } from '../../lib/assert.ts'
import type { Log } from '../../log/log.ts'
import type { UnitSpec } from '../../core/unit/unit-spec.ts'

/**
 * Puts the runtime directories of all units into a small file system of their own, so that no monitor can fill `/run`.
 * It stays until the host shuts down. A directory that is in use is left as it is: a mount would hide the sockets of
 * running monitors. Without this file system, units start all the same.
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

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants

/**
 * Makes the runtime directory of a unit that does not run, with its files. systemd takes over a directory that exists,
 * and removes it with the unit (systemd.exec(5), RuntimeDirectory=). It belongs to root until everything is in it, so
 * that the unit's user cannot put a link there.
 */
export async function makeRuntimeFiles(spec: UnitSpec, parent = '/run'): Promise<void> {
  if (spec.runtimeFiles.length === 0) return
  for (const { name } of spec.runtimeFiles)
    assert(name !== '..' && !name.includes('/'), `a runtime file is in its directory, unlike ${name}`)
  const directory = join(parent, spec.runtimeDirectory)
  const above = dirname(directory)
  // systemd makes it with this mode too: monitors of all users pass through it, whatever our umask is.
  if ((await mkdir(above, { recursive: true })) !== undefined) await chmod(above, 0o755)
  await rm(directory, { recursive: true, force: true })
  await mkdir(directory, { mode: 0o700 })
  for (const { name, content } of spec.runtimeFiles) {
    try {
      await makeRuntimeFile(join(directory, name), content, spec.userId)
    } catch (cause) {
      // A write that has no room does not name its file.
      throw new Error(`writing ${join(directory, name)}`, { cause })
    }
  }
  await lchown(directory, spec.userId, spec.userId)
}

/**
 * Makes a file that the user of a unit can read. The path may be in a directory of that user: what is there already is
 * an error, and what the user puts there meanwhile changes no other file.
 */
export async function makeRuntimeFile(
  path: string,
  content: string | Uint8Array,
  userId: number,
): Promise<void> {
  const handle = await open(path, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o400)
  try {
    await handle.writeFile(content)
    await handle.chown(userId, userId)
  } finally {
    await handle.close()
  }
}
