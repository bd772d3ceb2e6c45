/** Holes, data and extents of files: functions that node:fs does not offer. */
import { callInThread, library } from './koffi.ts'
import { FIEMAP_EXTENT } from '../../core/migration/changed-extents.ts'
import type { PhysicalExtent } from '../../core/migration/changed-extents.ts'

/** linux/fs.h; the same on x86-64 and arm64. */
const SEEK_DATA = 3
const SEEK_HOLE = 4
/** SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER (sync_file_range(2)). */
const WRITE_AND_WAIT = 1 | 2 | 4
/** FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE (fallocate(2)). */
const PUNCH_HOLE = 1 | 2

const libc = library('libc.so.6')
const lseek = libc.func('int64_t lseek(int fd, int64_t offset, int whence)')
const sync_file_range = libc.func(
  'int sync_file_range(int fd, int64_t offset, int64_t length, unsigned int flags)',
)
const fallocate = libc.func('int fallocate(int fd, int mode, int64_t offset, int64_t length)')

/**
 * Returns the offset of the next data at or after an offset (lseek(2)). Returns undefined if the call fails, as it does
 * when there is no data up to the end of the file. A file system may report zeros as data, but never data as a hole.
 * Moves the descriptor's offset. It runs on another thread: while the file is written to the disk, XFS makes it wait
 * for that, a tenth of a second at a time.
 */
export const dataFrom = (fd: number, offset: number): Promise<number | undefined> =>
  seek(fd, offset, SEEK_DATA)

async function seek(fd: number, offset: number, whence: number): Promise<number | undefined> {
  const at = await callInThread(lseek, fd, offset, whence)
  return at < 0 ? undefined : at
}

/**
 * Writes the parts of a stretch of a file that are not on the disk yet, and waits for that. Only fsync(2) makes them
 * durable, and has less to do afterwards. Returns false if a write failed, which no later call reports again.
 */
export const writeOut = async (fd: number, offset: number, length: number): Promise<boolean> =>
  (await callInThread(sync_file_range, fd, offset, length, WRITE_AND_WAIT)) === 0

/**
 * Whether a hole begins at an offset for which `dataFrom` returned undefined. Such a hole reaches to the end of the
 * file. If `dataFrom` failed, this call fails too, and returns false. Moves the descriptor's offset.
 */
export const isHoleToEnd = async (fd: number, offset: number): Promise<boolean> =>
  (await seek(fd, offset, SEEK_HOLE)) === offset

/** Frees the space of a stretch of a file, which reads as zeros from then on. Returns false if that failed. */
export const punchHole = async (fd: number, offset: number, length: number): Promise<boolean> =>
  (await callInThread(fallocate, fd, PUNCH_HOLE, offset, length)) === 0

/**
 * FS_IOC_FIEMAP (Documentation/filesystems/fiemap.rst of the kernel). Numbers of linux/fs.h and linux/fiemap.h,
 * as above.
 */
const FS_IOC_FIEMAP = 0xc020_660b
/** Writes the file to the disk first, so that data in memory has a place. */
const FIEMAP_FLAG_SYNC = 0x1
const FIEMAP_BYTES = 32
const EXTENT_BYTES = 56
const TO_THE_END = 0xffff_ffff_ffff_ffffn

const ioctl = libc.func('int ioctl(int fd, unsigned long request, void *argument)')

/** A part of the map of a file's extents. */
export type MapPage = {
  readonly extents: readonly PhysicalExtent[]
  /** Whether the file has no extent behind these. */
  readonly isLast: boolean
}

/**
 * Returns the first `count` extents that end behind an offset. Returns undefined if the call fails, e.g. because the
 * file system has no such map.
 */
export async function readMap(fd: number, from: number, count: number): Promise<MapPage | undefined> {
  const bytes = Buffer.alloc(FIEMAP_BYTES + count * EXTENT_BYTES)
  bytes.writeBigUInt64LE(BigInt(from), 0)
  bytes.writeBigUInt64LE(TO_THE_END - BigInt(from), 8)
  bytes.writeUInt32LE(FIEMAP_FLAG_SYNC, 16)
  bytes.writeUInt32LE(count, 24)
  return (await callInThread(ioctl, fd, FS_IOC_FIEMAP, bytes)) === 0 ? parseMap(bytes) : undefined
}

function parseMap(bytes: Buffer): MapPage {
  const found = bytes.readUInt32LE(20)
  const extents = Array.from({ length: found }, (_, index): PhysicalExtent => {
    const at = FIEMAP_BYTES + index * EXTENT_BYTES
    return {
      logical: Number(bytes.readBigUInt64LE(at)),
      physical: Number(bytes.readBigUInt64LE(at + 8)),
      length: Number(bytes.readBigUInt64LE(at + 16)),
      flags: bytes.readUInt32LE(at + 40),
    }
  })
  const isMarked = ((extents.at(-1)?.flags ?? 0) & FIEMAP_EXTENT.LAST) !== 0
  return { extents, isLast: found === 0 || isMarked }
}
