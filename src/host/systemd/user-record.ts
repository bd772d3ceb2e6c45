import { chmodSync, mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { UserId, VmId } from '../../core/ids.ts'
import { hasErrno } from '../ffi/errno-error.ts'

/**
 * The directory of user records that last until a reboot; nss-systemd(8) reads it. systemd runs nothing as a user id
 * that the user database does not know. So each VM's user has a record there while its unit exists. It lies in memory,
 * so no call can hang, and a call in a thread would take longer.
 */
const DIRECTORY = '/run/userdb'

const nameOf = (id: VmId): string => `vmhost-${id}`

/** Writes the record (systemd.io/USER_RECORD) and the link for lookups by user id. Safe to repeat. */
export function writeUserRecord(id: VmId, userId: UserId, directory = DIRECTORY): void {
  const file = `${nameOf(id)}.user`
  const record = {
    userName: nameOf(id),
    uid: userId,
    gid: userId,
    realName: `VM ${id}`,
    homeDirectory: '/',
    shell: '/usr/sbin/nologin',
    disposition: 'system',
    locked: true,
  }
  // Everybody must be able to look users up, whatever the umask is.
  if (mkdirSync(directory, { recursive: true }) !== undefined) chmodSync(directory, 0o755)
  try {
    writeFileSync(join(directory, file), JSON.stringify(record))
  } catch (cause) {
    // A write that has no room does not name its file.
    throw new Error(`writing ${join(directory, file)}`, { cause })
  }
  chmodSync(join(directory, file), 0o644)
  link(join(directory, `${userId}.user`), file)
}

function link(path: string, target: string): void {
  try {
    symlinkSync(target, path)
  } catch (error) {
    if (!hasErrno(error, 'EEXIST')) throw error
    if (readlinkSync(path) === target) return
    // The link is from a VM that had the id before, and whose removal was cut short.
    rmSync(path)
    symlinkSync(target, path)
  }
}

/** Removes what {@link writeUserRecord} wrote for this VM; does nothing if there is nothing. */
export function removeUserRecord(id: VmId, directory = DIRECTORY): void {
  const file = `${nameOf(id)}.user`
  const userId = readUserId(join(directory, file))
  if (userId !== undefined) {
    const path = join(directory, `${userId}.user`)
    if (linkTarget(path) === file) rmSync(path, { force: true })
  }
  rmSync(join(directory, file), { force: true })
}

/** Returns where a symbolic link leads; undefined if there is no link. */
export function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

function readUserId(path: string): number | undefined {
  try {
    const record: unknown = JSON.parse(readFileSync(path, 'utf8'))
    const uid = (record as { uid?: unknown } | null)?.uid
    return typeof uid === 'number' ? uid : undefined
  } catch (error) {
    // A truncated record counts as missing: it is written again or removed.
    if (hasErrno(error, 'ENOENT') || error instanceof SyntaxError) return undefined
    throw error
  }
}
