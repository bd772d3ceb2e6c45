import { createHash } from 'node:crypto'
import { fstat, ftruncate, statfs, write } from 'node:fs'
import { promisify } from 'node:util'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { ImageBound } from '../../ports/storage.ts'
import { unpacked } from './content.ts'
import { SparseFile } from '../files/sparse-file.ts'
import { MIB } from '../../lib/byte-units.ts'
import type { SparseTarget } from '../files/sparse-file.ts'

export type StoreTerms = {
  /** The digest of the stored content. */
  readonly sha256: Sha256
  /** The size limit of the stored content. */
  readonly bound: ImageBound
  /** The bytes that the pool keeps free meanwhile; 0 for no reserve. */
  readonly reserveBytes: number
}

export type Storing = StoreTerms & {
  /** An empty file that is open. */
  readonly fd: number
  /** Whether the source sends zstd frames, whose content is stored. */
  readonly unpacks: boolean
  /** Called with the number of bytes that are written. */
  readonly onWritten: (bytes: number) => void
  /** Called before `storage_full` is thrown, with the room above the reserve that there was for this file, in bytes. */
  readonly onShort: (roomBytes: number) => void
}

/** Stores the chunks in a file, and verifies their digest. Each chunk must be valid until the next one is requested. */
export async function storeContent(chunks: AsyncIterator<Uint8Array>, storing: Storing): Promise<void> {
  const { fd, sha256, unpacks, bound, reserveBytes, onWritten, onShort } = storing
  const file = new SparseFile(openTarget(fd))
  try {
    const hash = createHash('sha256')
    let bytes = 0
    let roomFor = 0
    for await (const piece of unpacks ? unpacked(chunks) : all(chunks)) {
      bytes += piece.length
      if (bytes > bound.bytesMax) throw tooLong(bound)
      if (reserveBytes > 0 && bytes > roomFor) {
        // One call at a time, because a fetch has a place for only one.
        await file.settle()
        const room = await roomOn(fd, reserveBytes)
        if (room < ROOM_BYTES_MIN) {
          onShort(room + (await bytesOf(fd)))
          throw shortOfRoom(reserveBytes)
        }
        roomFor = bytes + limits.imageRoomStepBytes
      }
      await file.write(piece)
      hash.update(piece)
      onWritten(file.writtenBytes)
    }
    await file.finish()
    const digest = hash.digest('hex')
    if (digest === sha256) return
    const what = unpacks ? 'what the image unpacks to' : 'the image'
    throw integrity(`${what} has the SHA-256 ${digest}, not the ${sha256} that was asked for`)
  } finally {
    await file.settle()
  }
}

/**
 * Opens the file that the other thread has open and will close. A call that hangs here keeps a place of a fetch
 * (`limits.imageFetchesMax`).
 */
const openTarget = (fd: number): SparseTarget => ({
  write: async (bytes, offset, length, position) => ({
    bytesWritten: (await writeAt(fd, bytes, offset, length, position)).bytesWritten,
  }),
  truncate: (bytes) => setSize(fd, bytes),
})

const writeAt = promisify(write)
const setSize = promisify(ftruncate)
const figuresOf = promisify(statfs)
const statsOf = promisify(fstat)

/** The pool must have room for one more step of every fetch that may be under way. */
const ROOM_BYTES_MIN = limits.imageFetchesMax * limits.imageRoomStepBytes

/** The unit of `st_blocks`; see inode(7). */
const STAT_BLOCK_BYTES = 512

const all = (chunks: AsyncIterator<Uint8Array>): AsyncIterable<Uint8Array> => ({
  [Symbol.asyncIterator]: () => chunks,
})

export const tooLong = (bound: ImageBound): HostFault =>
  new HostFault(bound.excess, 'receiving it', { cause: new Error(excessWords(bound)) })

/** Says that an image exceeds its bound. `announced`: by the size that its source announced, in bytes. */
export function excessWords({ bytesMax, excess }: ImageBound, announced?: number): string {
  const whose = excess === 'disk_smaller_than_image' ? 'the disk has' : 'this host takes'
  const more = `more than the ${bytesMax / MIB} MiB that ${whose}`
  if (announced === undefined) return `the image has ${more}`
  return `the image has ${Math.ceil(announced / MIB)} MiB, ${more}`
}

/** Returns the room of the pool above its reserve, in bytes. */
async function roomOn(fd: number, reserveBytes: number): Promise<number> {
  const { bavail, bsize } = await figuresOf(`/proc/self/fd/${fd}`)
  return bavail * bsize - reserveBytes
}

/** Returns the bytes of the pool that a file takes, without its holes. */
const bytesOf = async (fd: number): Promise<number> => (await statsOf(fd)).blocks * STAT_BLOCK_BYTES

const shortOfRoom = (reserveBytes: number): HostFault => {
  const cause = new Error(`the pool would have less than its reserve of ${reserveBytes / MIB} MiB free`)
  return new HostFault('storage_full', 'storing it', { cause })
}

const integrity = (why: string): HostFault =>
  new HostFault('image_integrity_failed', 'verifying it', { cause: new Error(why) })
