/** The end of this process, and its memory: functions that node:process does not offer. */
import { readFileSync } from 'node:fs'
import { assert } from '../../lib/assert.ts'
import { library } from './koffi.ts'

/** asm-generic/mman-common.h; the same on x86-64 and arm64. */
const MADV_DONTNEED = 4

const libc = library('libc.so.6')
const _exit = libc.func('void _exit(int status)')
const malloc_trim = libc.func('int malloc_trim(size_t pad)')
const madvise = libc.func('int madvise(uint64_t address, size_t length, int advice)')

/**
 * Ends this process at once (_exit(2)). process.exit() runs the exit handlers of libraries, and libuv's handler waits
 * for its threads. If one hangs in a dead file system, that wait would never end.
 */
export function exitNow(status: number): never {
  _exit(status)
  assert(false, '_exit returned')
}

/**
 * Gives memory that libraries have freed back to the host (malloc_trim(3)). The C library otherwise keeps it in an
 * arena of each thread.
 */
export function trimMemory(): void {
  malloc_trim(0)
}

/**
 * Takes the pages of the program's own file out of this process. Those that it still uses come back from the page cache
 * at their next use, a few at a time. The kernel may refuse for a mapping, which then stays as it is.
 */
export function returnProgramPages(program = process.execPath): void {
  for (const { begin, end } of unchangedMappings(readFileSync('/proc/self/smaps', 'utf8'), program))
    madvise(begin, end - begin, MADV_DONTNEED)
}

/** A part of the address space, from `begin` to before `end`. */
export type Mapping = { readonly begin: bigint; readonly end: bigint }

/**
 * Returns the mappings of a file that have the file's own bytes alone, by what proc_pid_smaps(5) shows. Others have
 * pages that exist only in memory: the loader writes addresses into some before it makes them read-only.
 */
export function unchangedMappings(smaps: string, file: string): Mapping[] {
  const found: Mapping[] = []
  let current: Mapping | undefined
  for (const line of smaps.split('\n')) {
    const head = /^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+ *(.*)$/.exec(line)
    if (head !== null) {
      const [, begin, end, rights = '', path] = head
      const isFixed = path === file && !rights.includes('w')
      current = isFixed ? { begin: BigInt(`0x${begin}`), end: BigInt(`0x${end}`) } : undefined
    } else if (current !== undefined && /^Anonymous: +0 kB$/.test(line)) found.push(current)
  }
  return found
}
