import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { renderDiskNote } from '../../core/disks/disk-note.ts'
import type { DiskNote } from '../../core/disks/disk-note.ts'
import type { UserId, VmId } from '../../core/ids.ts'
import { giveName, orRemove, publishFirst, sync, writeSynced } from '../files/durable.ts'
import type { Sync } from '../files/durable.ts'
import { chmod, chown } from '../files/pool-files.ts'
import { DISK_MODE } from '../pool/pool-paths.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import { makeVmDirectory } from '../pool/vm-directory.ts'

const NOTE_MODE = 0o600

/** A finished file that becomes the disk of a VM. */
export type DiskPublication = {
  readonly paths: PoolPaths
  /** The file, on the pool's file system. */
  readonly temporary: string
  readonly id: VmId
  readonly userId: UserId
  readonly note: DiskNote
  readonly signal: AbortSignal
  readonly sync?: Sync
}

/** Makes a file the disk of a VM, with its note. Returns false if the VM has a disk already, which stays as it is. */
export async function publishDisk(publication: DiskPublication): Promise<boolean> {
  const { paths, temporary, id, note, signal, sync: syncDisk = sync } = publication
  await prepare(publication)
  // The note comes first, so that a disk never exists without its note.
  await writeNote(paths, id, note)
  return publishFirst({ temporary, path: paths.disk(id), signal, sync: syncDisk })
}

/**
 * Makes a file the disk of a VM in place of the one that it has. The note comes last: if it is not written any more,
 * the old note shows that the disk must be replaced again, and no guest has used it.
 */
export async function replaceDisk(publication: DiskPublication): Promise<true> {
  const { paths, temporary, id, note, signal, sync: syncDisk = sync } = publication
  await prepare(publication)
  await syncDisk(temporary)
  signal.throwIfAborted()
  await giveName(temporary, paths.disk(id))
  await writeNote(paths, id, note)
  return true
}

/**
 * Gives the file its owner, and makes the directory of the VM. After an abort the VM may be gone,
 * and a directory would stay.
 */
async function prepare({ paths, temporary, id, userId, signal }: DiskPublication): Promise<void> {
  await own(temporary, userId, DISK_MODE)
  signal.throwIfAborted()
  await makeVmDirectory(paths, id)
}

export async function writeNote(paths: PoolPaths, id: VmId, note: DiskNote): Promise<void> {
  const temporary = join(paths.tmp, `note-${randomUUID()}`)
  await orRemove(temporary, async () => {
    await writeSynced(temporary, renderDiskNote(note), { mode: NOTE_MODE })
    await giveName(temporary, paths.diskNote(id))
  })
}

export async function own(path: string, userId: UserId, mode: number): Promise<void> {
  await chown(path, userId, userId)
  await chmod(path, mode)
}
