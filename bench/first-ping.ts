import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** The pause between two echo requests is the resolution of a measurement with them. */
const USUAL = { everySeconds: 0.002, boundSeconds: 60 }

/**
 * Sends echo requests to an address from now on; `first` resolves with the time (performance.now) of the first reply.
 * Ends by itself after the first reply or the bound.
 */
export function firstPing(
  address: string,
  { everySeconds, boundSeconds }: typeof USUAL = USUAL,
): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const ping = spawn('ping', ['-n', '-i', String(everySeconds), '-w', String(boundSeconds), address], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  createInterface({ input: ping.stdout }).on('line', (line) => {
    if (!line.includes('bytes from')) return
    resolve(performance.now())
    ping.kill('SIGINT')
  })
  void once(ping, 'exit').then(() => reject(new Error(`${address} did not answer within ${boundSeconds} s`)))
  return promise
}
