import { fstatSync } from 'node:fs'
import { exitNow } from '../host/ffi/this-process.ts'
import type { Log } from '../log/log.ts'
import { limits } from '../config/limits.ts'
import { errorChain } from '../log/error-chain.ts'

/**
 * Returns whether standard output is the journal: systemd names its socket as `device:inode` (systemd.exec(5),
 * JOURNAL_STREAM).
 */
export function isJournal(): boolean {
  const { dev, ino } = fstatSync(1)
  return process.env['JOURNAL_STREAM'] === `${dev}:${ino}`
}

/** Logs what Node would print in its own format: its warnings, and the error that ends the process. */
export function logWhatNodeSays(log: Log): void {
  process.removeAllListeners('warning')
  process.on('warning', (error) => log.warn({ error }, 'Node warning received'))
  process.on('uncaughtException', (error) => endAtOnce(log, error, 'internal error'))
}

/** Ends the daemon after an error that it cannot go on with. systemd starts the next one. */
export function endAtOnce(log: Log, error: Error, because: string): never {
  log.error({ error }, `vmhostd ending: ${because}; guests keep running`)
  exitNow(1)
}

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

/**
 * Divides the bound of a stop that ends guests: for how long they are saved, and for how long all of them are waited
 * for. The rest is longer than the interval of looks at them: when the bound is over, nothing is written any more.
 */
export function guestsTimes(boundMs: number): { readonly savesMs: number; readonly waitMs: number } {
  const waitMs = boundMs - Math.min(limits.shutdownNoteMs, boundMs / 4)
  return { savesMs: Math.max(waitMs / 2, waitMs - limits.shutdownGraceMs), waitMs }
}

/**
 * Waits until all work has ended, at most `boundMs`. Logs by name what failed and what still runs then. Never throws,
 * so that the caller always closes its resources afterwards.
 */
export async function endWork(
  work: Readonly<Record<string, Promise<void> | undefined>>,
  boundMs: number,
  log: Log,
): Promise<void> {
  const underWay = new Set(Object.keys(work))
  const ended = Promise.all(
    Object.entries(work).map(async ([name, end]) => {
      try {
        await end
      } catch (error) {
        log.error({ work: name, reason: errorChain(error) }, 'shutdown work failed')
      }
      underWay.delete(name)
    }),
  )
  const bound = Promise.withResolvers<void>()
  const timer = setTimeout(() => bound.resolve(), boundMs)
  await Promise.race([ended, bound.promise])
  clearTimeout(timer)
  if (underWay.size === 0) return
  const fields = { bound_ms: boundMs, under_way: [...underWay] }
  log.warn(fields, 'shutdown bound reached with work under way; the next start continues it')
}
