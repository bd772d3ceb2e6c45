import { errorChain } from '../log/error-chain.ts'
import type { Log } from '../log/log.ts'

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
