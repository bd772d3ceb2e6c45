import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { StagingId } from '../../core/snapshots/record.ts'
import type { Sha256, VmId } from '../../core/ids.ts'

/**
 * The layout of a pool:
 *
 *     vmhostd-pool.json          the marker
 *     images/<sha256>            verified, read-only, shared by all
 *     disks/<vm id>/disk.raw     the VM's disk, a clone of its rootfs image
 *     disks/<vm id>/disk.json    says whose disk that is, and what it was made of
 *     disks/<vm id>/save/        holds `memory` during a save, the only file in it that the VM's monitor may write to
 *     disks/<vm id>/saved/       the guest's memory and metadata.json; saved.tmp/ while they are being made
 *     disks/<vm id>/seed.iso     a link to seed-<digest>.iso beside it, so that the digest can be read without the disk
 *     disks/<vm id>/rounds/      <arrival id>/<number>.raw: clones of the disk, for the destination that copies it
 *     incoming/<arrival id>.raw  a disk that comes from another host, until it is complete and becomes the VM's
 *     staging/<staging id>/      of one snapshot: disk.raw, a clone of the VM's disk until that is compressed;
 *                                packed.zst, its compressed form; frames, the entries of that file's seek table
 *     tmp/                       files that are being made; emptied at start
 *
 * Each monitor runs as a user of its own, who can pass through the directories and open its files, but cannot list
 * them.
 */
export type PoolPaths = ReturnType<typeof poolPaths>

export function poolPaths(directory: string) {
  const disks = join(directory, 'disks')
  const images = join(directory, 'images')
  const incoming = join(directory, 'incoming')
  const staging = join(directory, 'staging')
  return {
    marker: join(directory, 'vmhostd-pool.json'),
    images,
    disks,
    tmp: join(directory, 'tmp'),
    /** A new name for something that is about to be removed. */
    removed: (): string => join(directory, 'tmp', `${REMOVED_PREFIX}${randomUUID()}`),
    image: (sha256: Sha256): string => join(images, sha256),
    vm: (id: VmId): string => join(disks, id),
    disk: (id: VmId): string => join(disks, id, 'disk.raw'),
    diskNote: (id: VmId): string => join(disks, id, 'disk.json'),
    seed: (id: VmId): string => join(disks, id, 'seed.iso'),
    save: (id: VmId): string => join(disks, id, SAVE),
    saved: (id: VmId): string => join(disks, id, SAVED),
    savedUnfinished: (id: VmId): string => join(disks, id, SAVED_UNFINISHED),
    rounds: (id: VmId): string => join(disks, id, 'rounds'),
    roundsFor: (id: VmId, arrival: ArrivalId): string => join(disks, id, 'rounds', arrival),
    round: (id: VmId, arrival: ArrivalId, number: number): string =>
      join(disks, id, 'rounds', arrival, `${number}.raw`),
    incoming,
    incomingDisk: (arrival: ArrivalId): string => join(incoming, `${arrival}.raw`),
    staging,
    staged: (id: StagingId): string => join(staging, id),
    stagedClone: (id: StagingId): string => join(staging, id, 'disk.raw'),
    stagedPacked: (id: StagingId): string => join(staging, id, 'packed.zst'),
    stagedFrames: (id: StagingId): string => join(staging, id, 'frames'),
  }
}

/** The start of the names, in `tmp`, of what is being removed. */
export const REMOVED_PREFIX = 'removed-'
export const SAVE = 'save'
export const SAVED = 'saved'
export const SAVED_UNFINISHED = 'saved.tmp'
/** The name of the guest's memory in each of these directories. */
export const MEMORY = 'memory'

/** Returns the path of the metadata in a directory of a saved state. */
export const metadataPath = (directory: string): string => join(directory, 'metadata.json')

/** The bits of a mode that say who may do what. */
export const PERMISSIONS = 0o777
/** Lets others pass through a directory to a path they know. */
export const PASSAGE_MODE = 0o711
export const PRIVATE_MODE = 0o700
/** The mode of a VM's disk, whose owner is the monitor's user. */
export const DISK_MODE = 0o600
export const SEED_MODE = 0o400

export const seedName = (digest: string): string => `seed-${digest}.iso`

/** Returns the digest in the name of a seed; undefined for any other name. */
export const seedDigestOf = (name: string): string | undefined => /^seed-([0-9a-f]+)\.iso$/.exec(name)?.[1]
