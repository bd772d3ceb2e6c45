import { createCoordinationApi } from '../api/coordination/coordination-api.ts'
import { bareAddress } from '../config/config.ts'
import { limits } from '../config/limits.ts'
import { errorChain } from '../log/error-chain.ts'
import type { CoordinationDependencies } from '../api/coordination/dependencies.ts'
import type { Listener } from '../api/listener/listener.ts'
import type { Config } from '../config/config.ts'

type CoordinationOptions = {
  readonly dependencies: CoordinationDependencies
  readonly config: Pick<Config, 'controller' | 'coordination'>
  /** Interval of tries, and of looks at the certificate files; for tests. */
  readonly retryMs?: number
}

/**
 * The listener for other hosts. The daemon works without it: if it cannot start, because files are missing or the port
 * is taken, the log says why, and it is tried again.
 */
export class CoordinationListener {
  readonly #options: CoordinationOptions
  #listener: Listener | undefined
  #timer: NodeJS.Timeout | undefined
  #reason: string | undefined
  #trying: Promise<void> = Promise.resolve()
  #closed = false

  private constructor(options: CoordinationOptions) {
    this.#options = options
  }

  /** Resolves after the first try, whether or not it succeeded. */
  static async open(options: CoordinationOptions): Promise<CoordinationListener> {
    const opened = new CoordinationListener(options)
    await opened.#tryAgain()
    return opened
  }

  /** Undefined while it does not listen. */
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
    const { dependencies, config, retryMs = limits.listenRetryMs } = this.#options
    const { listenAddress, port, caFile, certificateFile, keyFile } = config.coordination
    const log = dependencies.log.child({ listener: 'coordination' })
    try {
      this.#listener = await createCoordinationApi({
        dependencies: { ...dependencies, log },
        address: bareAddress(listenAddress),
        port,
        clientNames: new Set([
          config.controller.commonName,
          ...config.controller.clients.map(({ commonName }) => commonName),
        ]),
        tlsFiles: { ca: caFile, certificate: certificateFile, key: keyFile },
        ...(this.#options.retryMs === undefined ? {} : { certificateRecheckMs: retryMs }),
      })
      log.info({ address: listenAddress, port: this.#listener.port }, 'listening')
    } catch (error) {
      const reason = errorChain(error)
      if (reason !== this.#reason)
        log.error({ error }, 'no listener for other hosts, which can take no VM from this one; trying again')
      this.#reason = reason
      if (!this.#closed) this.#timer = setTimeout(() => void this.#tryAgain(), retryMs).unref()
    }
  }
}
