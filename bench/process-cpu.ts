import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

/** Returns a process's use of one core over `seconds`, in percent. */
export async function cpuPercent(pid: string, seconds: number): Promise<number> {
  const before = cpuMs(pid)
  const startedAt = performance.now()
  await delay(seconds * 1000)
  return ((cpuMs(pid) - before) / (performance.now() - startedAt)) * 100
}

/**
 * Sums the time of all its threads so far: the first field of /proc/PID/task/TID/schedstat, nanoseconds (kernel:
 * sched-stats.rst).
 */
function cpuMs(pid: string): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const nanoseconds = threads.map((thread) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ', 1)[0]),
  )
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1e6
}
