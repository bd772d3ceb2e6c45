import { constants } from 'node:os'
import { assert } from '../../lib/assert.ts'
import { ErrnoError } from './errno-error.ts'
import { errno, koffi, library } from './koffi.ts'

/** asm-generic/mman-common.h; the same on x86-64 and arm64. */
const PROT_READ = 0x1
const PROT_WRITE = 0x2
const MAP_SHARED = 0x01
const MADV_DONTNEED = 4
/** The result of a failed mmap(2). */
const MAP_FAILED = 0xffff_ffff_ffff_ffffn

const libc = library('libc.so.6')
const mmap = libc.func(
  'intptr_t mmap(void *address, size_t length, int protection, int flags, int fd, int64_t offset)',
)
const munmap = libc.func('int munmap(intptr_t address, size_t length)')
const madvise = libc.func('int madvise(intptr_t address, size_t length, int advice)')
const posix_fallocate = libc.func('int posix_fallocate(int fd, int64_t offset, int64_t length)')

/** A mapped file. After `unmap`, any access to a view ends the process. */
export type FileMapping = {
  readonly address: bigint
  /**
   * Returns a view of some bytes, of all by default. V8 takes its bytes for memory of this process until it collects
   * the view, loaded or not, and collects the sooner for it. So keep no large view for long.
   */
  view(offset?: number, length?: number): ArrayBuffer
  /** Takes the pages out of this process; the file keeps their content, and the next access maps them again. */
  unload(): void
  unmap(): void
}

/** The offset, a multiple of the page size, and whether a write to the mapping ends the process. */
export type MappingOptions = { readonly offset?: number; readonly readOnly?: boolean }

/** Maps `length` bytes of a file, from its start or an offset, as a shared mapping (mmap(2)). Throws ErrnoError. */
export function mapFile(fd: number, length: number, options: MappingOptions = {}): FileMapping {
  const { offset = 0, readOnly = false } = options
  const protection = readOnly ? PROT_READ : PROT_READ | PROT_WRITE
  const address = BigInt(mmap(null, length, protection, MAP_SHARED, fd, offset) as number | bigint)
  if (BigInt.asUintN(64, address) === MAP_FAILED) throw new ErrnoError('mmap', errno())
  return {
    address: BigInt.asUintN(64, address),
    view(from = 0, bytes = length - from) {
      assert(from >= 0 && bytes >= 0 && from + bytes <= length, `no ${bytes} bytes at ${from} of ${length}`)
      return koffi.view(address + BigInt(from), bytes)
    },
    unload() {
      if (madvise(address, length, MADV_DONTNEED) !== 0) throw new ErrnoError('madvise', errno())
    },
    unmap() {
      if (munmap(address, length) !== 0) throw new ErrnoError('munmap', errno())
    },
  }
}

/**
 * Allocates a file's bytes on the disk, so that no later write finds the disk full (posix_fallocate(3)). Throws
 * ErrnoError.
 */
export function allocate(fd: number, length: number): void {
  let status
  // A signal for which Node has a handler interrupts the call, and undoes its work.
  do status = posix_fallocate(fd, 0, length) as number
  while (status === constants.errno.EINTR)
  if (status !== 0) throw new ErrnoError(`posix_fallocate ${length} bytes`, status)
}
