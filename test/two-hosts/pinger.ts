/** Sends echo requests to a guest while it moves, and finds those without a reply. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { CLIENT } from './roads.ts'
import type { LabHost } from './lab-host.ts'

const INTERVAL_SECONDS = 0.05
/** A test that forgets it ends it by this. */
const BOUND_SECONDS = 240
/** Time for the replies to the last requests. */
const LAST_MS = 1000

export class Pinger {
  readonly #replies = new Set<number>()
  readonly #ping: ReturnType<typeof spawn>
  #repeated = 0

  /** `host` lends its ping(8), which this machine may not have; the network is that of this process. */
  constructor(host: LabHost, address: string) {
    const options = ['-n', '-i', String(INTERVAL_SECONDS), '-w', String(BOUND_SECONDS), '-I', CLIENT]
    const inFiles = ['nsenter', '-t', String(host.lab.leader?.pid), '-m', '--', 'ping']
    const argv = ['--pdeathsig', 'KILL', '--', ...inFiles, ...options, address]
    this.#ping = spawn('setpriv', argv, { stdio: ['ignore', 'pipe', 'inherit'] })
    if (this.#ping.stdout === null) throw new Error('ping has no output')
    createInterface(this.#ping.stdout).on('line', (line) => this.#take(line))
  }

  /** Ends it. Returns the requests without a reply, and the replies that came twice. */
  async end(): Promise<{ readonly lost: readonly number[]; readonly repeated: number }> {
    await sleep(LAST_MS)
    const exit = once(this.#ping, 'exit')
    this.#ping.kill('SIGINT')
    await exit
    const last = Math.max(0, ...this.#replies)
    const lost = Array.from({ length: last }, (_, index) => index + 1).filter(
      (seq) => !this.#replies.has(seq),
    )
    return { lost, repeated: this.#repeated }
  }

  /** Ends it without a result; safe to repeat. */
  kill(): void {
    this.#ping.kill('SIGKILL')
  }

  #take(line: string): void {
    const seq = /icmp_seq=(\d+) ttl=/.exec(line)?.[1]
    if (seq === undefined) return
    if (this.#replies.has(Number(seq))) this.#repeated += 1
    this.#replies.add(Number(seq))
  }
}
