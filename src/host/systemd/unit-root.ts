import { dirname, resolve } from 'node:path'
import { chmodSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { hasErrno } from '../ffi/errno-error.ts'
import { linkTarget } from './user-record.ts'

/** Programs, their libraries and the cache of library paths. A monitor needs nothing else of the host. */
export const HOST_PATHS = ['/usr', '/lib', '/lib64', '/etc/ld.so.cache']

/** The directory that is the root of a unit's file system. */
export type UnitRoot = {
  readonly directory: string
  /** The paths of the host that must be mounted there. */
  readonly mounted: readonly string[]
}

/**
 * Makes the root of a unit, in which systemd makes the places of its mounts. What is a link in the host's root, as
 * `/lib` is where it leads to `usr/lib`, is the same link there, because each mount takes half a millisecond of a
 * start. A root that is in use stays as it is. The directory is in memory,
 * as that of {@link writeUserRecord} is. Throws.
 */
export function makeUnitRoot(directory: string, hostPaths: readonly string[] = HOST_PATHS): UnitRoot {
  mkdirSync(directory, { recursive: true })
  // The unit's user must pass through it, whatever our umask is.
  chmodSync(directory, 0o755)
  return { directory, mounted: hostPaths.filter((path) => !isLinked(path, directory)) }
}

/**
 * Removes a root with the places of its mounts. The unit must be gone: if such a place is removed, the kernel unmounts
 * it in every mount namespace (__detach_mounts in fs/namespace.c).
 */
export function removeUnitRoot(directory: string): void {
  rmSync(directory, { recursive: true, force: true })
}

/**
 * Links a path in a root to where it leads on the host; returns false if that is not a directory that is mounted there.
 */
function isLinked(path: string, root: string): boolean {
  const target = linkTarget(path)
  const leadsIn = target !== undefined && dirname(path) === '/' && resolve('/', target).startsWith('/usr/')
  if (!leadsIn) return false
  try {
    symlinkSync(target, `${root}${path}`)
  } catch (error) {
    if (!hasErrno(error, 'EEXIST')) throw error
    return linkTarget(`${root}${path}`) === target
  }
  return true
}
