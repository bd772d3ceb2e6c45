import { exitNow } from '../host/ffi/exit-now.ts'
import type { Log } from '../log/log.ts'

/** Logs what Node would print in its own format: its warnings, and the error that ends the process. */
export function logWhatNodeSays(log: Log): void {
  process.removeAllListeners('warning')
  process.on('warning', (error) => log.warn({ error }, 'Node warning received'))
  process.on('uncaughtException', (error) => {
    log.error({ error }, 'vmhostd ending: internal error; guests keep running')
    exitNow(1)
  })
}
