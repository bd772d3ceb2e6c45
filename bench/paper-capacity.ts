/** Capacity on paper: for monitors that take little memory, and count with that of guests, and for disks that stay empty. */
import { writeFileSync } from 'node:fs'
import { configure } from '../lab/inside/configure.ts'
import { sh } from '../lab/inside/shell.ts'

const MEMORY_KIB = 2 ** 30
const DISK_OVERCOMMIT = 20
const MEMINFO = '/run/bench-meminfo'

/**
 * Restarts the daemon, which then promises a TiB of memory, and twenty times the disk that there is. Call the function
 * it returns to take the memory back from the next start on.
 */
export async function capacityOnPaper(): Promise<() => Promise<unknown>> {
  writeFileSync(MEMINFO, `MemTotal: ${MEMORY_KIB} kB\nMemAvailable: ${MEMORY_KIB} kB\n`)
  await sh('mount', '--bind', MEMINFO, '/proc/meminfo')
  await configure('capacity', { disk_overcommit: DISK_OVERCOMMIT })
  return () => sh('umount', '/proc/meminfo')
}
