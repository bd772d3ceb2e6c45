import { limits } from '../../config/limits.ts'
import { qmpSocketPath } from '../../core/unit/qemu-command.ts'
import type { VmId } from '../../core/vm/ids.ts'
import { outsideLogContext } from '../../log/log-context.ts'
import { onceListening } from './once-listening.ts'
import { QmpLost } from './qmp-error.ts'
import { QmpClient } from './qmp.ts'
import type { QmpEvent } from './qmp.ts'

export type QmpClientsOptions = {
  readonly runDirectory: string
  readonly greetingMs: number
  readonly onEvent: (id: VmId, event: QmpEvent) => void
  /** A connection that was there is over. */
  readonly onClose: (id: VmId) => void
}

/**
 * One connection a VM, made when first asked for and kept for its events; a lost one is made anew by the next question.
 * Both ways of asking throw QmpLost.
 */
export class QmpClients {
  readonly #options: QmpClientsOptions
  readonly #clients = new Map<VmId, Promise<QmpClient>>()

  constructor(options: QmpClientsOptions) {
    this.#options = options
  }

  /** The connection to a monitor that answers soon. */
  async of(id: VmId): Promise<QmpClient> {
    const { greetingMs } = this.#options
    const late = Promise.withResolvers<never>()
    const deadline = setTimeout(() => late.reject(new QmpLost('no greeting')), greetingMs)
    try {
      return await Promise.race([this.#client(id, greetingMs), late.promise])
    } finally {
      clearTimeout(deadline)
    }
  }

  /**
   * The connection to a monitor that is being started, and answers when it has read its guest: QEMU does nothing else
   * meanwhile.
   */
  async ofStarting(id: VmId, signal: AbortSignal): Promise<QmpClient> {
    const path = qmpSocketPath(this.#options.runDirectory, id)
    for (;;) {
      try {
        return await onceListening(path, () => this.#client(id, limits.restoreMs), signal)
      } catch (error) {
        // Someone with less patience had asked before.
        if (!(error instanceof QmpLost) || error.why !== 'no greeting') throw error
      }
    }
  }

  /** Ends all connections; guests go on. */
  close(): void {
    const clients = [...this.#clients.values()]
    this.#clients.clear()
    for (const client of clients) void client.then((c) => c.close(), ignored)
  }

  #client(id: VmId, greetingMs: number): Promise<QmpClient> {
    const known = this.#clients.get(id)
    if (known !== undefined) return known
    const forget = (): boolean => this.#clients.get(id) === connecting && this.#clients.delete(id)
    const connecting = outsideLogContext(() =>
      QmpClient.connect(qmpSocketPath(this.#options.runDirectory, id), {
        greetingMs,
        onEvent: (event) => this.#options.onEvent(id, event),
        onClose: () => {
          if (forget()) this.#options.onClose(id)
        },
      }),
    )
    this.#clients.set(id, connecting)
    connecting.catch(forget)
    return connecting
  }
}

const ignored = (): void => {}
