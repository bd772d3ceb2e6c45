import { library } from '../src/host/ffi/koffi.ts'

/** Less than the size from which the C library maps each block by itself (mallopt(3), M_MMAP_THRESHOLD). */
const BLOCK_BYTES = 100 * 1024

/**
 * Takes memory from the C library, writes to it, and frees it, up to a last block that keeps the rest with this
 * process. Returns what frees that one too.
 */
export function leaveFreedMemory(bytes: number): () => void {
  const libc = library('libc.so.6')
  const allocate = libc.func('uintptr_t malloc(size_t bytes)')
  const free = libc.func('void free(uintptr_t block)')
  const write = libc.func('uintptr_t memset(uintptr_t block, int byte, size_t bytes)')
  const blocks = Array.from({ length: bytes / BLOCK_BYTES }, () => Number(allocate(BLOCK_BYTES)))
  for (const block of blocks) write(block, 1, BLOCK_BYTES)
  const last = blocks.pop()
  for (const block of blocks) free(block)
  return () => void free(last)
}
