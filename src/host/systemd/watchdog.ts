import { limits } from '../../config/limits.ts'
import { notify } from './sd-notify.ts'

/**
 * Returns how often systemd must be notified, in milliseconds: a third of the time after which it ends this process, as
 * WATCHDOG_USEC says (sd_watchdog_enabled(3)). Undefined if the unit has no watchdog, or it is that of another process.
 */
export function watchdogEveryMs(
  environment: NodeJS.ProcessEnv = process.env,
  ownPid = process.pid,
): number | undefined {
  const { WATCHDOG_USEC: usec, WATCHDOG_PID: pid } = environment
  const limitMs = Number(usec) / 1000
  if (!Number.isFinite(limitMs) || limitMs <= 0) return undefined
  if (pid !== undefined && Number(pid) !== ownPid) return undefined
  return limitMs / limits.watchdogShare
}

/**
 * Notifies systemd from the event loop that it turns, until `end`. If the loop makes no progress, systemd kills this
 * process and starts another. Does nothing without a watchdog.
 */
export function startWatchdog(
  everyMs: number | undefined = watchdogEveryMs(),
  send: (state: string) => unknown = notify,
): { end(): void } {
  if (everyMs === undefined) return { end: () => {} }
  const turn = (): unknown => send('WATCHDOG=1')
  turn()
  const timer = setInterval(turn, everyMs)
  timer.unref()
  return { end: () => clearInterval(timer) }
}
