import { limits } from '../config/limits.ts'
import { given } from '../lib/given.ts'
import { errorChain } from '../log/error-chain.ts'
import type { Listener } from '../api/listener/listener.ts'
import type { Log } from '../log/log.ts'

/** A listener that has started. A local socket has neither port nor address. */
export type RetriedPart = Pick<Listener, 'close'> & Partial<Pick<Listener, 'address' | 'port'>>

export type RetriedListenerOptions = {
  /** The address for the log, unless the listener has another one. The log has the name of the listener. */
  readonly address: string
  readonly log: Log
  /** A log line for the time without the listener: what does not work, and that it is tried again. */
  readonly without: string
  readonly start: () => Promise<RetriedPart>
  /** Interval of tries; for tests. */
  readonly retryMs?: number
}

/**
 * A listener that the daemon works without. If it cannot start, because files are missing or the port is taken, the log
 * says why, and it is tried again.
 */
export class RetriedListener {
  readonly #options: RetriedListenerOptions
  #listener: RetriedPart | undefined
  #timer: NodeJS.Timeout | undefined
  #reason: string | undefined
  #trying: Promise<void> = Promise.resolve()
  #closed = false

  private constructor(options: RetriedListenerOptions) {
    this.#options = options
  }

  /** Resolves after the first try, whether or not it succeeded. */
  static async open(options: RetriedListenerOptions): Promise<RetriedListener> {
    const opened = new RetriedListener(options)
    await opened.#tryAgain()
    return opened
  }

  /** Undefined while it does not listen, and for a local socket. */
  get port(): number | undefined {
    return this.#listener?.port
  }

  /** See {@link Listener.close}. */
  async close(boundMs: number): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#trying
    await this.#listener?.close(boundMs)
  }

  #tryAgain(): Promise<void> {
    this.#trying = this.#try()
    return this.#trying
  }

  async #try(): Promise<void> {
    const { address, log, without, start, retryMs = limits.listenRetryMs } = this.#options
    try {
      this.#listener = await start()
      const { address: found = address, port } = this.#listener
      log.info({ address: found, ...given({ port }) }, 'listening')
    } catch (error) {
      const reason = errorChain(error)
      if (reason !== this.#reason) log.error({ error }, without)
      this.#reason = reason
      if (!this.#closed) this.#timer = setTimeout(() => void this.#tryAgain(), retryMs).unref()
    }
  }
}
