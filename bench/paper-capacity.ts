/** Memory on paper: monitors that take little of it, and count with the memory of guests. */
import { writeFileSync } from 'node:fs'
import { sh } from '../lab/inside/shell.ts'

const MEMORY_KIB = 2 ** 30
const MEMINFO = '/run/bench-meminfo'

/** Has the daemon promise a TiB from its next start on. Call the function it returns to take that back. */
export async function memoryOnPaper(): Promise<() => Promise<unknown>> {
  writeFileSync(MEMINFO, `MemTotal: ${MEMORY_KIB} kB\nMemAvailable: ${MEMORY_KIB} kB\n`)
  await sh('mount', '--bind', MEMINFO, '/proc/meminfo')
  return () => sh('umount', '/proc/meminfo')
}
