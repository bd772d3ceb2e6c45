import { library } from './koffi.ts'

const malloc_trim = library('libc.so.6').func('int malloc_trim(size_t pad)')

/**
 * Gives memory that libraries have freed back to the host (malloc_trim(3)). The C library otherwise keeps it in an arena of
 * each thread.
 */
export function trimMemory(): void {
  malloc_trim(0)
}
