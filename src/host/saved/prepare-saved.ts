import type { Stats } from 'node:fs'
import { join } from 'node:path'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { savedStateMib } from '../../core/capacity/ledger.ts'
import { renderSavedMetadata } from '../../core/saved/saved-metadata.ts'
import type { DiskIdentity, SavedMetadata } from '../../core/saved/saved-metadata.ts'
import type { SaveTerms } from '../../core/world/saved-state.ts'
import type { VmId } from '../../core/ids.ts'
import { abortable } from '../../lib/abortable.ts'
import { MIB, mibUp } from '../../lib/byte-units.ts'
import type { Semaphore } from '../../lib/semaphore.ts'
import type { CheckedMemory } from './checked-memory.ts'
import { checksumOf, FileCutShort } from '../files/checksum.ts'
import { sync, writeSynced } from '../files/durable.ts'
import type { GatedFile } from '../files/gated-file.ts'
import { openOfVm } from '../files/open-of-vm.ts'
import { lstat, mkdir, open, rename, stat } from '../files/pool-files.ts'
import { MEMORY, metadataPath, PASSAGE_MODE } from '../pool/pool-paths.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import { ifThere } from '../files/storage-fault.ts'

/** The memory belongs to root. The VM's user can read it, but can neither write nor replace it. */
const MEMORY_MODE = 0o440
const METADATA_MODE = 0o600
const BLOCK_BYTES = 512
/** A saved state has the guest's memory, that of its devices, and some bytes for each page. */
const LENGTH_FACTOR_MAX = 2

/** The inputs for turning the monitor's file into a saved state that only lacks its name. */
export type Preparation = {
  readonly paths: PoolPaths
  readonly id: VmId
  readonly terms: SaveTerms
  readonly doing: string
  /** Takes turns among all saves for calls that hold a thread for long. */
  readonly flushes: Semaphore
  readonly checked: CheckedMemory
  /** The end of the flushes that began before. */
  readonly flushed: Promise<void>
  readonly signal: AbortSignal
}

/**
 * Turns the file that was taken over into a saved state, complete and on the disk, that only lacks its name. Returns
 * its metadata.
 */
export async function prepareSaved(preparation: Preparation): Promise<SavedMetadata> {
  const { paths, id, terms, doing, signal } = preparation
  const directory = paths.savedUnfinished(id)
  const memory = join(directory, MEMORY)
  // Opened by its name in root's directory: whatever the monitor did to the name before, this file is published.
  const handle = await openOfVm(memory)
  try {
    await own(handle, doing)
    const before = await handle.stat({ bigint: true })
    const size = Number(before.size)
    // A sparse file takes no space, but reading it takes processors and threads.
    if (size > LENGTH_FACTOR_MAX * savedStateMib(terms.compute.memoryMib) * MIB)
      throw saveFailed(
        doing,
        `what the monitor left has ${mibUp(size)} MiB, more than a guest of this size needs`,
      )
    const crc32 = await flushedChecksum(handle, size, preparation)
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
    // The umask reduces the mode that mkdir sets.
    await made.chmod(PASSAGE_MODE)
  } finally {
    await made.close()
  }
  signal.throwIfAborted()
  await rename(written, join(directory, MEMORY))
}

async function own(handle: GatedFile, doing: string): Promise<void> {
  const found = await handle.stat()
  // With a second link its owner could keep access to the file.
  if (!found.isFile() || found.nlink !== 1)
    throw saveFailed(doing, 'what the monitor left is not a file of its own')
  await handle.chmod(MEMORY_MODE)
  await handle.chown(0, found.uid)
}

/**
 * Flushes a file to the disk, waits for the flushes that began before, and returns its checksum. All of it runs at the
 * same time; if one part fails, all stop.
 */
async function flushedChecksum(
  handle: GatedFile,
  lengthBytes: number,
  { doing, flushes, flushed, signal }: Preparation,
): Promise<number> {
  const failed = new AbortController()
  const either = AbortSignal.any([signal, failed.signal])
  const stopAll = (error: unknown): never => {
    failed.abort(error)
    throw error instanceof FileCutShort ? saveFailed(doing, error.message) : error
  }
  const tasks = [
    checksumOf(handle, lengthBytes, either).catch(stopAll),
    writeAllOut(handle, lengthBytes, { doing, flushes, signal: either }).catch(stopAll),
    abortable(flushed, either).catch(stopAll),
  ] as const
  await Promise.allSettled(tasks)
  const [crc32] = await Promise.all(tasks)
  return crc32
}

/**
 * Flushes in windows. So an aborted save stops soon, leaves bandwidth to the running guest, and releases its threads to
 * other saves in between.
 */
async function writeAllOut(
  handle: GatedFile,
  lengthBytes: number,
  { doing, flushes, signal }: Pick<Preparation, 'doing' | 'flushes' | 'signal'>,
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
 * Flushes the disk too. The guest's memory relies on everything that it has written to the disk. The disk's time of
 * last write must also survive a power failure.
 */
async function flushedDisk({ paths, id, flushes, signal }: Preparation): Promise<DiskIdentity> {
  const handle = await openOfVm(paths.disk(id))
  try {
    await flushes.run(() => handle.sync(), signal)
    return identityOf(await handle.stat({ bigint: true }))
  } finally {
    await handle.close()
  }
}

/** Returns what identifies the disk at a path; undefined if there is none. */
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

/** Writes the metadata last, so that if the metadata exists, everything else does. */
async function writeMetadata(directory: string, metadata: SavedMetadata): Promise<void> {
  await writeSynced(metadataPath(directory), renderSavedMetadata(metadata), { mode: METADATA_MODE })
  await sync(directory)
}

const saveFailed = (doing: string, because: string): HostFault =>
  new HostFault('save_failed', doing, { cause: new Error(because) })
