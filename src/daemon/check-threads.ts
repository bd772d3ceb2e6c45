import { limits } from '../config/limits.ts'
import type { Log } from '../log/log.ts'

/** libuv's default without the variable (libuv, "Thread pool work scheduling"). */
const THREADS_DEFAULT = 4

/**
 * Warns when this process has too few threads for blocking calls. libuv reads the variable at its first use, before
 * this code runs.
 */
export function checkThreads(log: Log): void {
  const threads = Number(process.env['UV_THREADPOOL_SIZE'] ?? THREADS_DEFAULT)
  if (threads >= limits.blockingThreads) return
  log.warn(
    { threads, needed: limits.blockingThreads },
    'too few threads for a pool that hangs: start vmhostd by its unit, or set UV_THREADPOOL_SIZE',
  )
}
