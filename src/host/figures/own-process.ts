/** Figures of the daemon's own process, from the kernel and from Node. */
import { readdirSync, readFileSync } from 'node:fs'
import { hasErrno } from '../ffi/errno-error.ts'
import { pendingTimers } from '../system-clock.ts'

/** The soft limit of open files (proc_pid_limits(5)); undefined if there is none. */
const openFilesMax =
  Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]) || undefined

export const ownProcess = {
  startedAtMs: Date.now() - process.uptime() * 1000,
  cpuMicroseconds: () => Object.values(process.cpuUsage()).reduce((sum, part) => sum + part, 0),
  residentBytes: () => process.memoryUsage.rss(),
  openFiles: countOpenFiles,
  openFilesMax,
  /** Timers of the clock do not keep the process alive, and Node lists only those that do. */
  pendingTimers: () =>
    pendingTimers() + process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length,
} as const

/** Returns how many files are open, without the one that reads the directory: the limit, if none is left for that. */
function countOpenFiles(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length - 1
  } catch (error) {
    if (hasErrno(error, 'EMFILE')) return openFilesMax
    throw error
  }
}
