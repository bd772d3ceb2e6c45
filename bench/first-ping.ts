import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** Pause between two echo requests; the resolution of a measurement with them. */
const INTERVAL_SECONDS = 0.002
const BOUND_SECONDS = 60

/**
 * Sends echo requests to an address from now on; `first` resolves with the time (performance.now) of the first reply.
 * Ends by itself after the first reply or the bound.
 */
export function firstPing(address: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const ping = spawn('ping', ['-n', '-i', String(INTERVAL_SECONDS), '-w', String(BOUND_SECONDS), address], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  createInterface({ input: ping.stdout }).on('line', (line) => {
    if (!line.includes('bytes from')) return
    resolve(performance.now())
    ping.kill('SIGINT')
  })
  void once(ping, 'exit').then(() => reject(new Error(`${address} did not answer within ${BOUND_SECONDS} s`)))
  return promise
}
