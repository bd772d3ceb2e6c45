/** Sends echo requests to a guest while it moves, and finds those without a reply. */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../lab/inside/until.ts'
import { CLIENT } from './roads.ts'
import type { LabHost } from './lab-host.ts'

/** A host holds `limits.heldFramesMax` of them for a guest that is down: these are fewer in `limits.handoverMsMax`. */
const INTERVAL_SECONDS = 0.2
/** So many that no test sends them all. Not a time (-w): with one, ping(8) ends at the first error of the network. */
const REQUESTS_MAX = 10_000
/** Time for the replies to the last requests. */
const LAST_MS = 1000

export class Pinger {
  readonly #replies = new Set<number>()
  readonly #ping: ReturnType<typeof spawn>
  readonly #exit: Promise<unknown>
  #repeated = 0

  /** `host` lends its ping(8), which this machine may not have; the network is that of this process. */
  constructor(host: LabHost, address: string) {
    const options = ['-n', '-i', String(INTERVAL_SECONDS), '-c', String(REQUESTS_MAX), '-I', CLIENT]
    const inFiles = ['nsenter', '-t', String(host.lab.leader?.pid), '-m', '--', 'ping']
    const argv = ['--pdeathsig', 'KILL', '--', ...inFiles, ...options, address]
    this.#ping = spawn('setpriv', argv, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#exit = once(this.#ping, 'exit')
    if (this.#ping.stdout === null) throw new Error('ping has no output')
    createInterface(this.#ping.stdout).on('line', (line) => this.#take(line))
  }

  /** Waits until every request up to the last reply has one: a host may deliver some of them late. */
  async allAnswered(boundMs: number): Promise<void> {
    await until(
      'all echo requests are answered',
      async () => {
        const lost = this.#lost()
        if (lost.length > 0)
          throw new Error(
            `no reply to ${lost.join(', ')}; ${this.#unread()} replies found no room at ping(8)`,
          )
        return true
      },
      boundMs,
    )
  }

  /** Ends it. Returns the requests without a reply, and the number of replies that came twice. */
  async end(): Promise<{ readonly lost: readonly number[]; readonly repeated: number }> {
    await sleep(LAST_MS)
    this.#ping.kill('SIGINT')
    await this.#exit
    return { lost: this.#lost(), repeated: this.#repeated }
  }

  #lost(): number[] {
    const last = Math.max(0, ...this.#replies)
    return Array.from({ length: last }, (_, index) => index + 1).filter((seq) => !this.#replies.has(seq))
  }

  /**
   * Returns how many replies the sockets of the network had no room for: the last column of these tables
   * (net/ipv4/raw.c).
   */
  #unread(): number {
    const tables = ['icmp', 'raw'].map((name) => readFileSync(`/proc/${this.#ping.pid}/net/${name}`, 'utf8'))
    const sockets = tables.flatMap((table) => table.trim().split('\n').slice(1))
    return sockets.reduce((sum, line) => sum + Number(line.trim().split(/\s+/).at(-1)), 0)
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
