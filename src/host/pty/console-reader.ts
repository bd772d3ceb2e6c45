import { readSync } from 'node:fs'
import { ReadStream } from 'node:tty'
import { limits } from '../../config/limits.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'
import { errorChain } from '../../log/error-chain.ts'
import { duplicate } from '../ffi/descriptor.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import type { Ring } from '../../core/console/ring.ts'
import type { Log } from '../../log/log.ts'

export type ReaderOptions = {
  /** A pty master, non-blocking, that the caller owns. */
  readonly fd: number
  readonly ring: Ring
  /** The budget that all consoles of the daemon share. */
  readonly shared: TokenBucket
  /** Called once per turn of the event loop in which the ring got bytes. */
  readonly onOutput: () => void
  readonly log: Log
}

/**
 * Reads a pty continuously, straight into the ring, so that a writing guest never waits for a reader. The budgets limit
 * how much it reads, so that neither one guest nor all of them together can occupy the daemon.
 */
export class ConsoleReader {
  readonly #options: ReaderOptions
  readonly #stream: ReadStream
  readonly #budget = new TokenBucket({
    perSecond: limits.consoleMovedBytesPerSecond,
    burst: limits.consoleMovedBurstBytes,
    nowMs: performance.now(),
  })
  #pause: NodeJS.Timeout | undefined
  #telling: NodeJS.Immediate | undefined

  constructor(options: ReaderOptions) {
    this.#options = options
    const { ring, fd, log } = options
    // The stream closes its descriptor, so it gets a duplicate. It requests a new buffer after each commit.
    this.#stream = new ReadStream(duplicate(fd), {
      onread: { buffer: () => ring.free(), callback: (length) => this.#take(length) },
    })
    this.#stream.on('error', (error) => {
      log.error({ reason: errorChain(error) }, 'console read failed')
    })
    this.#stream.resume()
  }

  /**
   * Charges work to this console's budget, which delays reading. Returns for how many milliseconds nothing should be
   * read.
   */
  spend(bytes: number): number {
    const nowMs = performance.now()
    return Math.max(this.#budget.spend(nowMs, bytes), this.#options.shared.spend(nowMs, bytes))
  }

  /** Reads what is left, for the last time, and reports all new output at once. */
  readRest(): void {
    const { ring, fd, onOutput } = this.#options
    this.#stop()
    const from = ring.end
    try {
      let length
      do {
        length = readSync(fd, ring.free())
        ring.commit(length)
      } while (length > 0 && ring.end - from < limits.consoleRestBytesMax)
    } catch (error) {
      if (!hasErrno(error, 'EAGAIN', 'EIO')) throw error
    }
    if (ring.end > from || this.#telling !== undefined) onOutput()
  }

  /** Resolves when nothing reads into the ring any longer. */
  close(): Promise<void> {
    this.#stop()
    clearImmediate(this.#telling)
    const { promise, resolve } = Promise.withResolvers<void>()
    if (this.#stream.closed) resolve()
    else this.#stream.once('close', () => resolve()).destroy()
    return promise
  }

  #take(length: number): boolean {
    this.#options.ring.commit(length)
    this.#telling ??= setImmediate(() => {
      this.#telling = undefined
      this.#options.onOutput()
    })
    const pauseMs = this.spend(length)
    if (pauseMs === 0) return true
    this.#pause = setTimeout(() => this.#stream.resume(), pauseMs)
    return false
  }

  #stop(): void {
    clearTimeout(this.#pause)
    this.#stream.pause()
  }
}
