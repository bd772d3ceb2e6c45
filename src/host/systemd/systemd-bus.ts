import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { errorChain } from '../../log/error-chain.ts'
import { outsideLogContext } from '../../log/log.ts'
import type { Log } from '../../log/log.ts'
import { BusError, openBus, PRIVATE_SOCKET, SYSTEM_BUS, valueOf } from './bus.ts'
import { MANAGER, MANAGER_PATH, PROPERTIES } from './bus-names.ts'
import { Listeners } from '../../lib/listeners.ts'
import type { Bus, BusAddress, BusCall } from './bus.ts'
import type { BusSignal } from './early-signals.ts'

export type SystemdBusOptions = {
  readonly log: Log
  /** The addresses, tried in this order for each new connection. */
  readonly addresses?: readonly BusAddress[]
}

/**
 * The connection to systemd over D-Bus, for the daemon's whole life. It connects at the first call, and again after
 * each loss. A call fails at once while systemd is out of reach. No call is repeated, because only the caller knows
 * which may be.
 */
export class SystemdBus {
  readonly #log: Log
  readonly #addresses: readonly BusAddress[]
  readonly #signalListeners = new Listeners<[signal: BusSignal]>()
  readonly #lossListeners = new Listeners<[error: HostFault]>()
  readonly #returnListeners = new Listeners()
  #bus: Bus | undefined
  #opening: Promise<Bus> | undefined
  /** Whether signals may have been missed, because there was a time without a connection. */
  #missedSignals = false
  #retry: NodeJS.Timeout | undefined
  #closed = false

  constructor({ log, addresses = [PRIVATE_SOCKET, SYSTEM_BUS] }: SystemdBusOptions) {
    this.#log = log
    this.#addresses = addresses
  }

  /** Connects if there is no connection; signals arrive only over one. Throws HostFault `systemd_unavailable`. */
  async connect(): Promise<void> {
    if (this.#bus === undefined) await this.#open()
  }

  /**
   * Calls a method of systemd and returns its results. Throws {@link BusError} if systemd answers with an error, and
   * HostFault `systemd_unavailable` if it does not answer.
   */
  async call(call: BusCall): Promise<readonly unknown[]> {
    const bus = this.#bus ?? (await this.#open())
    const deadline = Promise.withResolvers<never>()
    const late = new Error(`no answer within ${limits.busCallMs} ms`)
    const timer = setTimeout(() => deadline.reject(late), limits.busCallMs)
    try {
      return await Promise.race([bus.call(call), deadline.promise])
    } catch (error) {
      if (error instanceof BusError && !SYSTEMD_IS_GONE.has(error.errorName)) throw error
      throw unavailable(`calling ${call.member} of systemd`, error)
    } finally {
      clearTimeout(timer)
    }
  }

  /** Calls a method of the manager, e.g. `StopUnit`. */
  callManager(member: string, signature: string, body: readonly unknown[]): Promise<readonly unknown[]> {
    return this.call({ path: MANAGER_PATH, interface: MANAGER, member, signature, body })
  }

  /** Returns a property of the object at a path. Throws as {@link call} does. */
  async property(path: string, iface: string, name: string): Promise<unknown> {
    const [value] = await this.call({
      path,
      interface: PROPERTIES,
      member: 'Get',
      signature: 'ss',
      body: [iface, name],
    })
    return valueOf(value)
  }

  /** Calls the listener with every signal of systemd, until the returned function is called. */
  onSignal(listener: (signal: BusSignal) => void): () => void {
    return this.#signalListeners.add(listener)
  }

  /** Calls the listener when a connection was lost: pending answers and signals will not come. */
  onLoss(listener: (error: HostFault) => void): () => void {
    return this.#lossListeners.add(listener)
  }

  /** Calls the listener when systemd is in reach again after a loss: signals may have been missed. */
  onReturn(listener: () => void): () => void {
    return this.#returnListeners.add(listener)
  }

  close(): void {
    this.#closed = true
    this.#cancelRetry()
    this.#bus?.close()
    this.#bus = undefined
  }

  async #open(): Promise<Bus> {
    if (this.#closed) throw unavailable('calling systemd', new Error('the connection was closed on purpose'))
    this.#opening ??= outsideLogContext(() => this.#connect()).finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #connect(): Promise<Bus> {
    this.#cancelRetry()
    let failure: unknown
    for (const address of this.#addresses) {
      try {
        const bus = await openBus(address, {
          onSignal: (signal) => this.#signalListeners.notify(signal),
          onLost: (error) => this.#lose(error),
        })
        if (this.#closed) {
          bus.close()
          break
        }
        this.#bus = bus
        this.#log.debug({ socket: address.path }, 'connected to systemd')
        if (this.#missedSignals) {
          this.#missedSignals = false
          this.#returnListeners.notify()
        }
        return bus
      } catch (error) {
        failure ??= error
      }
    }
    this.#missedSignals = true
    this.#retryLater()
    throw unavailable('connecting to systemd', failure)
  }

  #lose(error: Error): void {
    this.#bus = undefined
    this.#missedSignals = true
    this.#log.warn({ reason: errorChain(error) }, 'connection to systemd lost')
    this.#lossListeners.notify(unavailable('waiting for systemd', error))
    this.#retryLater()
  }

  /** Reconnects for the listeners, who would otherwise wait for the next call. A call connects by itself. */
  #retryLater(): void {
    if (this.#closed || this.#retry !== undefined) return
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      if (this.#bus === undefined) this.#open().catch(() => {})
    }, limits.busReconnectMs)
    this.#retry.unref()
  }

  #cancelRetry(): void {
    clearTimeout(this.#retry)
    this.#retry = undefined
  }
}

/** The errors that dbus-daemon returns in systemd's place (D-Bus specification, "Standard errors"). */
const SYSTEMD_IS_GONE = new Set([
  'org.freedesktop.DBus.Error.ServiceUnknown',
  'org.freedesktop.DBus.Error.NameHasNoOwner',
  'org.freedesktop.DBus.Error.NoReply',
  'org.freedesktop.DBus.Error.Disconnected',
  'org.freedesktop.DBus.Error.Timeout',
  'org.freedesktop.DBus.Error.TimedOut',
])

const unavailable = (doing: string, cause: unknown): HostFault =>
  new HostFault('systemd_unavailable', doing, { cause })
