/** What node:fs does not offer of files with holes. */
import { constants } from 'node:os'
import { ErrnoError } from './errno-error.ts'
import { errno, library } from './koffi.ts'

/** linux/fs.h; the same on x86-64 and arm64. */
const SEEK_DATA = 3
const SEEK_HOLE = 4
/** SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER (sync_file_range(2)). */
const WRITE_AND_WAIT = 1 | 2 | 4

const libc = library('libc.so.6')
const lseek = libc.func('int64_t lseek(int fd, int64_t offset, int whence)')
const sync_file_range = libc.func(
  'int sync_file_range(int fd, int64_t offset, int64_t length, unsigned int flags)',
)
export type Extent = { readonly from: number; readonly to: number }

/**
 * The first stretch of data at or after an offset, undefined where there is only a hole from there to the end of the file
 * (lseek(2)). A file system may call zeros data, never data a hole. Moves the descriptor's offset. Throws ErrnoError.
 */
export function dataFrom(fd: number, offset: number): Extent | undefined {
  const from = Number(lseek(fd, offset, SEEK_DATA))
  if (from < 0) {
    if (errno() === constants.errno.ENXIO) return undefined
    throw new ErrnoError('lseek SEEK_DATA', errno())
  }
  const to = Number(lseek(fd, from, SEEK_HOLE))
  if (to < 0) throw new ErrnoError('lseek SEEK_HOLE', errno())
  return { from, to }
}

/**
 * Writes what of a stretch of a file is not on the disk yet, and waits for it. That alone makes nothing last: fsync(2)
 * does, and has less to do afterwards. False where a write failed, which no later call tells of again.
 */
export const writeOut = (fd: number, offset: number, length: number): Promise<boolean> =>
  new Promise((resolve, reject) => {
    sync_file_range.async(fd, offset, length, WRITE_AND_WAIT, (error: Error | null, status: number) => {
      if (error === null) resolve(status === 0)
      else reject(error)
    })
  })
