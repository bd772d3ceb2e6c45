/** The map of a file's extents: FS_IOC_FIEMAP (Documentation/filesystems/fiemap.rst of the kernel). */
import { FIEMAP_EXTENT } from '../../core/migration/changed-extents.ts'
import type { PhysicalExtent } from '../../core/migration/changed-extents.ts'
import { callInThread, library } from './koffi.ts'

/** linux/fs.h and linux/fiemap.h; the same on x86-64 and arm64. */
const FS_IOC_FIEMAP = 0xc020_660b
/** Writes the file to the disk first, so that data in memory has a place. */
const FIEMAP_FLAG_SYNC = 0x1
const FIEMAP_BYTES = 32
const EXTENT_BYTES = 56
const TO_THE_END = 0xffff_ffff_ffff_ffffn

const ioctl = library('libc.so.6').func('int ioctl(int fd, unsigned long request, void *argument)')

export type MapPage = {
  readonly extents: readonly PhysicalExtent[]
  /** Whether the file has no extent behind these. */
  readonly isLast: boolean
}

/**
 * Returns the first `count` extents that end behind an offset. Returns undefined if the call fails, e.g. because the file
 * system has no such map.
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
