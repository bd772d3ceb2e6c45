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
  /** A pty master, non-blocking. It stays the caller's. */
  readonly fd: number
  readonly ring: Ring
  /** What all consoles of the daemon may have together. */
  readonly shared: TokenBucket
  /** Called once a turn of the event loop in which the ring got bytes. */
  readonly onOutput: () => void
  readonly log: Log
}

/**
 * Reads a pty always, straight into the ring, so that a guest that writes never waits for a reader; yet no more than the
 * budgets let it, so that neither one guest nor all of them can have the daemon for themselves.
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
    // The stream closes what it reads from, so it gets a descriptor of its own. It asks for a buffer after each commit.
    this.#stream = new ReadStream(duplicate(fd), {
      onread: { buffer: () => ring.free(), callback: (length) => this.#take(length) },
    })
    this.#stream.on('error', (error) => {
      log.error({ reason: errorChain(error) }, 'a console cannot be read any more')
    })
    this.#stream.resume()
  }

  /** Counts work for this console, for which reading waits; returns for how many milliseconds nothing should be read. */
  spend(bytes: number): number {
    const nowMs = performance.now()
    return Math.max(this.#budget.spend(nowMs, bytes), this.#options.shared.spend(nowMs, bytes))
  }

  /** Reads what is left, for the last time, and tells at once of all that is new. */
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

  /** Resolves when nothing reads into the ring any more. */
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
