import { chmod, mkdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { UserId, VmId } from '../../core/ids.ts'
import { hasErrno } from '../ffi/errno-error.ts'

/**
 * The directory of user records that last until a reboot; nss-systemd(8) reads it. systemd runs nothing as a user id
 * that the user database does not know. So each VM's user has a record there while its unit exists.
 */
const DIRECTORY = '/run/userdb'

const nameOf = (id: VmId): string => `vmhost-${id}`

/** Writes the record (systemd.io/USER_RECORD) and the link for lookups by user id. Safe to repeat. */
export async function writeUserRecord(id: VmId, userId: UserId, directory = DIRECTORY): Promise<void> {
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
  if ((await mkdir(directory, { recursive: true })) !== undefined) await chmod(directory, 0o755)
  await writeFile(join(directory, file), JSON.stringify(record))
  await chmod(join(directory, file), 0o644)
  await link(join(directory, `${userId}.user`), file)
}

async function link(path: string, target: string): Promise<void> {
  try {
    await symlink(target, path)
  } catch (error) {
    if (!hasErrno(error, 'EEXIST')) throw error
    if ((await readlink(path)) === target) return
    // The link is from a VM that had the id before, and whose removal was cut short.
    await rm(path)
    await symlink(target, path)
  }
}

/** Removes what {@link writeUserRecord} wrote for this VM; does nothing if there is nothing. */
export async function removeUserRecord(id: VmId, directory = DIRECTORY): Promise<void> {
  const file = `${nameOf(id)}.user`
  const userId = await readUserId(join(directory, file))
  if (userId !== undefined) {
    const path = join(directory, `${userId}.user`)
    const target = await readlink(path).catch(() => undefined)
    if (target === file) await rm(path, { force: true })
  }
  await rm(join(directory, file), { force: true })
}

async function readUserId(path: string): Promise<number | undefined> {
  try {
    const record: unknown = JSON.parse(await readFile(path, 'utf8'))
    const uid = (record as { uid?: unknown } | null)?.uid
    return typeof uid === 'number' ? uid : undefined
  } catch (error) {
    // A truncated record counts as missing: it is written again or removed.
    if (hasErrno(error, 'ENOENT') || error instanceof SyntaxError) return undefined
    throw error
  }
}
