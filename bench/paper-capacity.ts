/**
 * Capacity on paper: for monitors that take little memory, and count with that of guests,
 * and for disks that stay empty.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { configure } from '../lab/inside/configure.ts'
import { sh } from '../lab/inside/shell.ts'

const MEMORY_KIB = 2 ** 30
const DISK_OVERCOMMIT = 20
const MEMINFO = '/run/bench-meminfo'
const PAPER = `MemTotal: ${MEMORY_KIB} kB\nMemAvailable: ${MEMORY_KIB} kB\n`

/**
 * Restarts the daemon, which then promises a TiB of memory, and twenty times the disk that there is. Call the function
 * it returns to take the memory back from the next start on.
 */
export async function capacityOnPaper(): Promise<() => Promise<unknown>> {
  await promiseMemory()
  await configure('capacity', { disk_overcommit: DISK_OVERCOMMIT })
  return () => sh('umount', '/proc/meminfo')
}

/** Mounts the file once: another bench of this lab may have left it there, and one removal must take it back. */
async function promiseMemory(): Promise<void> {
  if (readFileSync('/proc/meminfo', 'utf8') === PAPER) return
  writeFileSync(MEMINFO, PAPER)
  await sh('mount', '--bind', MEMINFO, '/proc/meminfo')
}
