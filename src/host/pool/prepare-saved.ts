import { constants } from 'node:fs'
import type { Stats } from 'node:fs'
import { join } from 'node:path'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { renderSavedMetadata } from '../../core/storage/saved-metadata.ts'
import type { DiskIdentity, SavedMetadata } from '../../core/storage/saved-metadata.ts'
import type { SaveTerms } from '../../core/storage/saved-state.ts'
import type { VmId } from '../../core/vm/ids.ts'
import type { Semaphore } from '../../lib/semaphore.ts'
import type { CheckedMemory } from './checked-memory.ts'
import { checksumOf, FileCutShort } from './checksum.ts'
import { sync } from './durable.ts'
import type { GatedFile } from './gated-file.ts'
import { lstat, mkdir, open, rename, stat } from './pool-files.ts'
import { MEMORY, PASSAGE_MODE } from './pool-paths.ts'
import type { PoolPaths } from './pool-paths.ts'
import { ifThere } from './storage-fault.ts'

/** Root's, and readable by the VM's user, who can neither write it nor put another in its place. */
const MEMORY_MODE = 0o440
const METADATA_MODE = 0o600
const BLOCK_BYTES = 512

/** What is between the monitor's file and a saved state that only needs its name. */
export type Preparation = {
  readonly paths: PoolPaths
  readonly id: VmId
  readonly terms: SaveTerms
  readonly doing: string
  /** Turns of what holds a thread for long, over all saves. */
  readonly flushes: Semaphore
  readonly checked: CheckedMemory
  readonly signal: AbortSignal
}

/**
 * Makes what was taken over a saved state, whole and on the disk, that lacks only its name. Answers what it says of itself.
 */
export async function prepareSaved(preparation: Preparation): Promise<SavedMetadata> {
  const { paths, id, terms, doing, signal } = preparation
  const directory = paths.savedUnfinished(id)
  const memory = join(directory, MEMORY)
  // Opened again by its name in root's directory: whatever the monitor did to the name before, this is what is published.
  // Without O_NONBLOCK a FIFO would hold a thread until somebody writes to it (open(2)).
  const handle = await open(memory, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    await own(handle, doing)
    const before = await handle.stat({ bigint: true })
    const size = Number(before.size)
    const crc32 = await flushed(handle, size, preparation)
    preparation.checked.note(id, before, crc32)
    const { blocks, size: sizeAfter } = await handle.stat()
    if (sizeAfter !== size) throw saveFailed(doing, 'what the monitor left is still being written')
    const disk = await flushedDisk(preparation)
    const metadata: SavedMetadata = {
      ...terms,
      vmId: id,
      memory: { lengthBytes: size, storedBytes: blocks * BLOCK_BYTES, crc32 },
      disk,
    }
    signal.throwIfAborted()
    await writeMetadata(directory, metadata)
    return metadata
  } finally {
    await handle.close()
  }
}

/** Whether a monitor wrote to the file that the daemon made for it, which is empty until then. */
export const holdsMemory = (found: Stats | undefined): boolean => found?.isFile() === true && found.size > 0

/** Moves the monitor's file out of its reach. */
export async function takeOver({ paths, id, doing, signal }: Preparation): Promise<void> {
  const directory = paths.savedUnfinished(id)
  const written = join(paths.save(id), MEMORY)
  const found = await ifThere(lstat(written))
  if (!holdsMemory(found)) throw saveFailed(doing, 'the monitor wrote no memory')
  signal.throwIfAborted()
  await mkdir(directory, { mode: PASSAGE_MODE })
  const made = await open(directory, 'r')
  try {
    // The mode that mkdir takes is cut by the umask.
    await made.chmod(PASSAGE_MODE)
  } finally {
    await made.close()
  }
  signal.throwIfAborted()
  await rename(written, join(directory, MEMORY))
}

async function own(handle: GatedFile, doing: string): Promise<void> {
  const found = await handle.stat()
  // A second name would be a way for its owner to keep it.
  if (!found.isFile() || found.nlink !== 1)
    throw saveFailed(doing, 'what the monitor left is not a file of its own')
  await handle.chmod(MEMORY_MODE)
  await handle.chown(0, found.uid)
}

type Flushing = Pick<Preparation, 'doing' | 'flushes' | 'signal'>

/** Brings a file to the disk, and answers its checksum. Both go on beside each other; where one fails, both stop. */
async function flushed(
  handle: GatedFile,
  lengthBytes: number,
  { doing, flushes, signal }: Flushing,
): Promise<number> {
  const failed = new AbortController()
  const either = AbortSignal.any([signal, failed.signal])
  const stopOther = (error: unknown): never => {
    failed.abort(error)
    throw error instanceof FileCutShort ? saveFailed(doing, error.message) : error
  }
  const tasks = [
    checksumOf(handle, lengthBytes, either).catch(stopOther),
    writeAllOut(handle, lengthBytes, { doing, flushes, signal: either }).catch(stopOther),
  ] as const
  await Promise.allSettled(tasks)
  const [crc32] = await Promise.all(tasks)
  return crc32
}

/**
 * In windows, so that a save that is given up stops soon, takes no bandwidth from the guest that goes on, and lets the
 * threads it needs to others in between.
 */
async function writeAllOut(
  handle: GatedFile,
  lengthBytes: number,
  { doing, flushes, signal }: Flushing,
): Promise<void> {
  for (let at = 0; at < lengthBytes; at += limits.saveFlushBytes) {
    const whole = await flushes.run(() => handle.writeOut(at, limits.saveFlushBytes), signal)
    if (!whole) throw new HostFault('storage_failed', `${doing}: the pool did not take what was written`)
    signal.throwIfAborted()
  }
  await flushes.run(() => handle.sync(), signal)
  signal.throwIfAborted()
}

/**
 * The disk is flushed too: the guest's memory counts on all that it has written, and the time of its last write must be
 * the same after a power failure.
 */
async function flushedDisk({ paths, id, flushes, signal }: Preparation): Promise<DiskIdentity> {
  const handle = await open(paths.disk(id), 'r')
  try {
    await flushes.run(() => handle.sync(), signal)
    return identityOf(await handle.stat({ bigint: true }))
  } finally {
    await handle.close()
  }
}

/** What tells the disk at a path; undefined where there is none. */
export async function diskIdentity(path: string): Promise<DiskIdentity | undefined> {
  const found = await ifThere(stat(path, { bigint: true }))
  return found === undefined ? undefined : identityOf(found)
}

const identityOf = ({
  ino,
  size,
  mtimeNs,
}: {
  ino: bigint
  size: bigint
  mtimeNs: bigint
}): DiskIdentity => ({
  inode: ino,
  sizeBytes: Number(size),
  modifiedNs: mtimeNs,
})

export const metadataPath = (directory: string): string => join(directory, 'metadata.json')

/** The last of what is written, so that where it is, all is. */
async function writeMetadata(directory: string, metadata: SavedMetadata): Promise<void> {
  const handle = await open(metadataPath(directory), 'wx', METADATA_MODE)
  try {
    await handle.writeFile(renderSavedMetadata(metadata))
    await handle.sync()
  } finally {
    await handle.close()
  }
  await sync(directory)
}

const saveFailed = (doing: string, because: string): HostFault =>
  new HostFault('save_failed', doing, { cause: new Error(because) })
