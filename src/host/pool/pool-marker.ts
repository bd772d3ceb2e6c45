import { randomUUID } from 'node:crypto'
import { basename, dirname, join } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import { reflink } from '../files/clone-file.ts'
import { publish } from '../files/durable.ts'
import { KnownFiles } from '../files/known-files.ts'
import { chmod, mkdir, readdir, readFile, removeFile, writeFile, open, statfs } from '../files/pool-files.ts'
import { PASSAGE_MODE, poolPaths, PRIVATE_MODE } from './pool-paths.ts'
import { ifThere, orStorageFault } from '../files/storage-fault.ts'
import { MIB } from '../../lib/byte-units.ts'
import { objectInJson } from '../../lib/parsed-values.ts'
import type { PoolPaths } from './pool-paths.ts'
import type { PoolFigures } from '../../ports/host-figures.ts'

const VERSION = 1

/** A pool as its file system is. */
export type MarkedPool = {
  readonly poolId: string
  /** False if the file system cannot share blocks; then disks are copied in full. */
  readonly reflink: boolean
}

/**
 * Makes a directory a pool, or detects that it is one already. The marker lies on the pool's own file system. If that
 * is not mounted, the marker is missing, and objects that are only out of sight are not taken for absent.
 */
export function markPool(directory: string): Promise<MarkedPool> {
  const paths = poolPaths(directory)
  return orStorageFault('setting up the storage pool', async () => {
    await makeDirectories(directory, paths)
    const poolId = (await ifThere(readMarker(paths.marker))) ?? (await writeMarker(paths))
    return { poolId, reflink: await canReflink(paths.tmp) }
  })
}

/**
 * Inspects a pool as set-up marked it, and makes nothing of a directory that is none; undefined if there is no marker.
 * Throws HostFault: it makes two small files, so a pool that is full or read-only has the code for that.
 */
export function probePool(directory: string): Promise<MarkedPool | undefined> {
  const { marker, tmp } = poolPaths(directory)
  return orStorageFault('inspecting the storage pool', async () => {
    const poolId = await ifThere(readMarker(marker))
    return poolId === undefined ? undefined : { poolId, reflink: await canReflink(tmp) }
  })
}

/** Checks that a pool is in sight, again and again. */
export class PoolSight {
  readonly #paths: PoolPaths
  readonly #poolId: string
  readonly #markers = new KnownFiles(idInMarker)

  constructor(paths: PoolPaths, poolId: string) {
    this.#paths = paths
    this.#poolId = poolId
  }

  /** Throws HostFault `storage_inspection_failed` unless this is the pool, whole and in sight. */
  verify(): Promise<void> {
    return orStorageFault('looking for the storage pool', () => this.#look(), 'storage_inspection_failed')
  }

  /** Returns the sizes of the file system that has the pool's marker. Throws errors of system calls, and HostFault. */
  async figures(): Promise<PoolFigures> {
    const poolId = this.#poolId
    const marker = await open(this.#paths.marker, 'r')
    try {
      // Uses the open marker, so that a mount or unmount meanwhile cannot put another file system in its place.
      const { frsize, blocks, bavail } = await statfs(`/proc/self/fd/${marker.fd}`)
      verifyId(idInMarker(await marker.readText()), poolId)
      await this.verify()
      const mib = (count: number): number => Math.floor((count * frsize) / MIB)
      return { poolId, totalMib: mib(blocks), availableMib: mib(bavail) }
    } finally {
      await marker.close()
    }
  }

  async #look(): Promise<void> {
    const { marker, images, disks, tmp } = this.#paths
    // One call at a time: if the pool hangs, only one thread hangs with it.
    verifyId(await this.#markers.read(marker), this.#poolId)
    // One listing instead of a look at each directory, because this comes before and after every look at a VM. None of
    // them is a link: what is made in one is renamed into another.
    const names = await readdir(dirname(marker))
    const missing = [images, disks, tmp].map((path) => basename(path)).filter((name) => !names.includes(name))
    if (missing.length > 0)
      throw inspectionFault('looking for the storage pool', `it lacks the directory ${missing.join(', ')}`)
  }
}

/** Throws unless a marker with the id that was found is that of the pool. */
function verifyId(found: string, poolId: string): void {
  if (found === poolId) return
  throw inspectionFault('reading the pool marker', `the pool there is ${found}, not ${poolId}`)
}

async function makeDirectories(directory: string, paths: PoolPaths): Promise<void> {
  for (const [path, mode] of [
    [directory, PASSAGE_MODE],
    [paths.images, PASSAGE_MODE],
    [paths.disks, PASSAGE_MODE],
    [paths.tmp, PRIVATE_MODE],
  ] as const) {
    await mkdir(path, { recursive: true })
    // The umask reduces the mode that mkdir sets.
    await chmod(path, mode)
  }
}

/** Returns the id of the pool in a directory. Throws if there is none, for example because the pool is not mounted. */
export const poolIdOf = (directory: string): Promise<string> => readMarker(poolPaths(directory).marker)

const readMarker = async (marker: string): Promise<string> => idInMarker(await readFile(marker, 'utf8'))

/** Returns the pool's id. */
function idInMarker(text: string): string {
  const { pool_id, version } = objectInJson(text)
  if (typeof pool_id !== 'string' || pool_id === '')
    throw inspectionFault('reading the pool marker', 'it has no pool id')
  if (version !== VERSION)
    throw inspectionFault('reading the pool marker', 'it is of another version of vmhostd')
  return pool_id
}

async function writeMarker(paths: PoolPaths): Promise<string> {
  const poolId = randomUUID()
  const marker = { pool_id: poolId, created_at: new Date().toISOString(), version: VERSION }
  const temporary = join(paths.tmp, `marker-${poolId}`)
  await writeFile(temporary, `${JSON.stringify(marker, undefined, 2)}\n`)
  await publish(temporary, paths.marker)
  return poolId
}

async function canReflink(tmp: string): Promise<boolean> {
  const [from, to] = ['from', 'to'].map((name) => join(tmp, `probe-${name}-${randomUUID()}`)) as [
    string,
    string,
  ]
  try {
    await writeFile(from, 'probe')
    return await reflink(from, to)
  } finally {
    await Promise.all([from, to].map(removeFile))
  }
}

const inspectionFault = (doing: string, why: string): HostFault =>
  new HostFault('storage_inspection_failed', doing, { cause: new Error(why) })
