import type { Stats } from 'node:fs'
import type { DiskState, FoundNote, SeedState } from '../../core/world/world.ts'
import { given } from '../../lib/given.ts'
import { parseDiskNote } from '../../core/disks/disk-note.ts'
import type { UserId, VmId } from '../../core/ids.ts'
import { readFile, readlink, stat } from '../files/pool-files.ts'
import { DISK_MODE, PERMISSIONS, SEED_MODE, seedDigestOf } from '../pool/pool-paths.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import { isAsMade } from '../pool/vm-directory.ts'
import { ifThere } from '../files/storage-fault.ts'
import { MIB } from '../../lib/byte-units.ts'

/** Inspects the disk of a VM in the pool, and reads the note beside it. */
export async function lookAtDisk(
  paths: PoolPaths,
  id: VmId,
  noteFound: Promise<FoundNote | undefined> = readNote(paths, id),
): Promise<DiskState> {
  const [disk, directory, note] = await Promise.all([
    ifThere(stat(paths.disk(id))),
    ifThere(stat(paths.vm(id))),
    noteFound,
  ])
  if (directory === undefined) return { kind: 'absent' }
  if (disk === undefined) return { kind: 'absent', hasDirectory: true }
  const usableBy = isAsMade(directory) ? onlyUser(disk, DISK_MODE) : undefined
  return {
    kind: 'present',
    sizeMib: Math.floor(disk.size / MIB),
    ...given({ note, usableBy }),
  }
}

export async function readNote(paths: PoolPaths, id: VmId): Promise<FoundNote | undefined> {
  const text = await ifThere(readFile(paths.diskNote(id), 'utf8'))
  return text === undefined ? undefined : parseDiskNote(text)
}

/** Inspects the seed of a VM in the pool. */
export async function lookAtSeed(paths: PoolPaths, id: VmId): Promise<SeedState> {
  const path = paths.seed(id)
  const [name, target] = await Promise.all([ifThere(readlink(path)), ifThere(stat(path))])
  const digest = seedDigestOf(name ?? '')
  if (digest === undefined || target === undefined) return { kind: 'absent' }
  const usableBy = onlyUser(target, SEED_MODE)
  return { kind: 'present', digest, ...given({ usableBy }) }
}

/**
 * Returns the only user that a file of this mode is for; undefined if the owner, group or mode is not as it was made.
 */
const onlyUser = ({ mode, uid, gid }: Stats, made: number): UserId | undefined =>
  (mode & PERMISSIONS) === made && uid === gid ? (uid as UserId) : undefined
