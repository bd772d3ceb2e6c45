/** Figures of the daemon's own process, from the kernel and from Node. */
import { readdirSync, readFileSync } from 'node:fs'
import { pendingTimers } from '../system-clock.ts'

export const ownProcess = {
  startedAtMs: Date.now() - process.uptime() * 1000,
  cpuMicroseconds: () => Object.values(process.cpuUsage()).reduce((sum, part) => sum + part, 0),
  residentBytes: () => process.memoryUsage.rss(),
  /** Without the one that reads the directory. */
  openFiles: () => readdirSync('/proc/self/fd').length - 1,
  /** The soft limit (proc_pid_limits(5)); undefined if there is none. */
  openFilesMax:
    Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]) || undefined,
  /** Timers of the clock do not keep the process alive, and Node lists only those that do. */
  pendingTimers: () =>
    pendingTimers() + process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length,
} as const
