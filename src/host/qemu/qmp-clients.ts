import { limits } from '../../config/limits.ts'
import { qmpSocketPath } from '../../core/monitor/qemu-command.ts'
import type { VmId } from '../../core/ids.ts'
import { outsideLogContext } from '../../log/log.ts'
import { onceListening } from '../monitors/monitor-socket.ts'
import { MonitorLost } from '../monitors/monitor-error.ts'
import { QmpClient } from './qmp.ts'
import type { QmpEvent } from './qmp.ts'
import { ReadBudget } from './read-budget.ts'

export type QmpClientsOptions = {
  readonly runDirectory: string
  readonly greetingMs: number
  readonly onEvent: (id: VmId, event: QmpEvent) => void
  /** Called when an established connection has ended. */
  readonly onClose: (id: VmId) => void
}

/**
 * Holds one connection per VM. The first question makes it, and it is kept for its events. After a loss, the next
 * question makes a new one. `of` and `ofStarting` throw MonitorLost.
 */
export class QmpClients {
  readonly #options: QmpClientsOptions
  readonly #clients = new Map<VmId, Promise<QmpClient>>()
  /** Outlive the connections: a monitor must not be able to have another one by closing its connection. */
  readonly #budgets = new Map<VmId, ReadBudget>()

  constructor(options: QmpClientsOptions) {
    this.#options = options
  }

  /** Returns the connection to a monitor that should answer soon. */
  async of(id: VmId): Promise<QmpClient> {
    const { greetingMs } = this.#options
    const late = Promise.withResolvers<never>()
    const deadline = setTimeout(() => late.reject(new MonitorLost('no greeting')), greetingMs)
    try {
      return await Promise.race([this.#client(id, greetingMs), late.promise])
    } finally {
      clearTimeout(deadline)
    }
  }

  /**
   * Returns the connection to a monitor that is starting. It answers when it has read its guest, because QEMU does
   * nothing else meanwhile.
   */
  async ofStarting(id: VmId, signal: AbortSignal): Promise<QmpClient> {
    const path = qmpSocketPath(this.#options.runDirectory, id)
    for (;;) {
      try {
        return await onceListening(path, () => this.#client(id, limits.restoreMs), signal)
      } catch (error) {
        // An earlier caller had asked with a shorter bound.
        if (!(error instanceof MonitorLost) || error.why !== 'no greeting') throw error
      }
    }
  }

  /** Closes all connections. Guests continue. */
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
        budget: this.#budget(id),
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

  #budget(id: VmId): ReadBudget {
    const nowMs = performance.now()
    for (const [vm, budget] of this.#budgets)
      if (!this.#clients.has(vm) && budget.isFull(nowMs)) this.#budgets.delete(vm)
    const budget = this.#budgets.get(id) ?? new ReadBudget(nowMs)
    this.#budgets.set(id, budget)
    return budget
  }
}

const ignored = (): void => {}
