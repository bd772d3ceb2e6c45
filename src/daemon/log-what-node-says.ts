import { exitNow } from '../host/ffi/exit-now.ts'
import type { Log } from '../log/log.ts'

/** Puts into lines of the log what Node would print as it likes: its warnings, and the error that ends the process. */
export function logWhatNodeSays(log: Log): void {
  process.removeAllListeners('warning')
  process.on('warning', (error) => log.warn({ error }, 'warning of Node'))
  process.on('uncaughtException', (error) => {
    log.error({ error }, 'vmhostd ends: internal error; guests keep running')
    exitNow(1)
  })
}
