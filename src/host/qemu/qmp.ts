import type { Socket } from 'node:net'
import { limits } from '../../config/limits.ts'
import { abortable } from '../../lib/abortable.ts'
import { isObject, parsedJson } from '../../lib/parsed-values.ts'
import { connectToMonitor } from '../monitors/monitor-socket.ts'
import { lostBy, MonitorLost, MonitorRefusal } from '../monitors/monitor-error.ts'
import { ReadBudget } from './read-budget.ts'

export type QmpEvent = { readonly event: string; readonly data?: unknown }

export type QmpOptions = {
  readonly onEvent?: (event: QmpEvent) => void
  /** Called once when an established connection ends, no matter which side ended it. */
  readonly onClose?: () => void
  readonly greetingMs?: number
  readonly commandMs?: number
  readonly lineBytesMax?: number
  /** How much may be read; that of a new monitor when absent. */
  readonly budget?: ReadBudget
}

type Pending = { readonly resolve: (value: unknown) => void; readonly reject: (error: Error) => void }
type Message = Readonly<Record<string, unknown>>

const NEWLINE = 0x0a

/**
 * A client of the QEMU Machine Protocol (QEMU, docs/interop/qmp-spec). QEMU serves one client at a time: a second one
 * can connect, but is greeted only after the first has gone.
 *
 * Throws {@link MonitorRefusal} if the monitor refused a command, and {@link MonitorLost} if no answer can come any
 * longer. A command past its deadline ends the connection, because a monitor that is so late is not worth waiting for
 * twice. A monitor that sends more than it may is read slowly, so that it cannot occupy the daemon.
 */
export class QmpClient {
  readonly #socket: Socket
  readonly #options: QmpOptions
  readonly #pending = new Map<number, Pending>()
  readonly #greeted = Promise.withResolvers<void>()
  #nextId = 1
  readonly #budget: ReadBudget
  #pause: NodeJS.Timeout | undefined
  #line: Buffer[] = []
  #lineBytes = 0
  #event = Promise.withResolvers<void>()
  #isGreeted = false
  #isReady = false
  /** The monitor's description of itself in its greeting (QEMU, docs/interop/qmp-spec, 2.2). */
  greeting: unknown
  /** Set when the connection has ended; all later calls throw it. */
  #lost: MonitorLost | undefined

  private constructor(socket: Socket, options: QmpOptions) {
    this.#options = options
    this.#budget = options.budget ?? new ReadBudget(performance.now())
    this.#socket = socket
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk))
    this.#socket.on('error', (error) => this.#lose(lostBy(error)))
    this.#socket.on('close', () => this.#lose(new MonitorLost('closed')))
    // There may be no caller that waits for them.
    for (const { promise } of [this.#greeted, this.#event]) promise.catch(() => {})
    this.#spend({ lines: 0, bytes: 0 })
  }

  /** Connects, waits for the greeting and leaves the negotiation mode. */
  static async connect(path: string, options: QmpOptions = {}): Promise<QmpClient> {
    const client = new QmpClient(dialled(path), options)
    const { greetingMs = limits.qmpGreetingMs } = options
    const deadline = setTimeout(() => client.#lose(new MonitorLost('no greeting')), greetingMs)
    try {
      // Nothing is sent before the greeting: QEMU serves one client at a time, and greets the one that it serves.
      await client.#greeted.promise
    } finally {
      clearTimeout(deadline)
    }
    try {
      await client.execute('qmp_capabilities')
    } catch (error) {
      client.close()
      throw error
    }
    if (client.#lost !== undefined) throw client.#lost
    client.#isReady = true
    return client
  }

  /** Runs one command and resolves to its result. On abort it rejects at once, but the command is not cancelled. */
  async execute(command: string, args?: object, signal?: AbortSignal): Promise<unknown> {
    signal?.throwIfAborted()
    if (this.#lost !== undefined) throw this.#lost
    const { commandMs = limits.qmpCommandMs } = this.#options
    const id = this.#nextId++
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#pending.set(id, { resolve, reject })
    const deadline = setTimeout(() => this.#lose(new MonitorLost('no answer')), commandMs)
    const onAbort = (): void => reject(signal?.reason)
    signal?.addEventListener('abort', onAbort, { once: true })
    this.#socket.write(`${JSON.stringify({ execute: command, ...(args && { arguments: args }), id })}\n`)
    try {
      return await promise
    } finally {
      this.#pending.delete(id)
      clearTimeout(deadline)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /**
   * Calls `ask` now and after each event until it returns an answer. Throws MonitorLost if the connection ends before.
   */
  async onceSo<T>(ask: () => Promise<T | undefined>, signal: AbortSignal): Promise<T> {
    for (;;) {
      const event = this.#event.promise
      const answer = await ask()
      if (answer !== undefined) return answer
      await abortable(event, signal)
    }
  }

  close(): void {
    this.#lose(new MonitorLost('closed'))
  }

  #read(chunk: Buffer): void {
    let rest = chunk
    let lines = 0
    for (let end = rest.indexOf(NEWLINE); end !== -1; end = rest.indexOf(NEWLINE)) {
      this.#keep(rest.subarray(0, end))
      const line = Buffer.concat(this.#line).toString('utf8')
      this.#line = []
      this.#lineBytes = 0
      rest = rest.subarray(end + 1)
      lines += 1
      if (this.#lost !== undefined) return
      if (line.trim() !== '') this.#take(line)
    }
    this.#keep(rest)
    this.#spend({ lines, bytes: chunk.length })
  }

  /** Counts what was read, and stops reading for as long as it was too much. */
  #spend(amount: { readonly lines: number; readonly bytes: number }): void {
    const pauseMs = this.#budget.spend(performance.now(), amount)
    if (pauseMs === 0 || this.#lost !== undefined) return
    this.#socket.pause()
    this.#pause = setTimeout(() => this.#socket.resume(), pauseMs)
  }

  #keep(part: Buffer): void {
    const { lineBytesMax = limits.qmpLineBytesMax } = this.#options
    this.#lineBytes += part.length
    if (this.#lineBytes > lineBytesMax) this.#lose(new MonitorLost('line too long'))
    else if (part.length > 0) this.#line.push(part)
  }

  #take(line: string): void {
    const message = parseMessage(line)
    const isGreeting = message !== undefined && 'QMP' in message
    if (message === undefined || isGreeting === this.#isGreeted) {
      this.#lose(new MonitorLost('not a QMP message'))
    } else if (isGreeting) {
      this.#isGreeted = true
      this.greeting = message['QMP']
      this.#greeted.resolve()
    } else if (typeof message['event'] === 'string') {
      this.#event.resolve()
      this.#event = Promise.withResolvers()
      this.#event.promise.catch(() => {})
      this.#options.onEvent?.({ event: message['event'], data: message['data'] })
    } else {
      this.#answer(message)
    }
  }

  #answer(message: Message): void {
    const { id, error } = message
    // An error without an id does not answer one of our commands: the monitor could not read what we sent.
    if (typeof id !== 'number') return this.#lose(new MonitorLost('an answer without id'))
    const pending = this.#pending.get(id)
    if (error === undefined) pending?.resolve(message['return'])
    else pending?.reject(new MonitorRefusal(error))
  }

  /** Ends the connection. The first reason is kept. */
  #lose(reason: MonitorLost): void {
    if (this.#lost !== undefined) return
    this.#lost = reason
    this.#greeted.reject(reason)
    this.#event.reject(reason)
    for (const { reject } of this.#pending.values()) reject(reason)
    this.#line = []
    clearTimeout(this.#pause)
    this.#socket.destroy()
    if (this.#isReady) this.#options.onClose?.()
  }
}

function dialled(path: string): Socket {
  try {
    return connectToMonitor(path)
  } catch (error) {
    throw lostBy(error)
  }
}

function parseMessage(line: string): Message | undefined {
  const value = parsedJson(line)
  return isObject(value) ? value : undefined
}
