import { limits } from '../../config/limits.ts'
import { closeFor } from '../../core/console/close.ts'
import { isObject, objectInJson } from '../../lib/parsed-values.ts'
import { ConnectionFailed } from '../connection-failed.ts'
import type { ConsoleClose } from '../../core/console/close.ts'
import type { Link, Links, LinkTime } from './link.ts'
import type { ConsoleGuest, DaemonMessage } from '../../core/console/console-viewer.ts'

export type Received = ReceivedMessage | { readonly kind: 'output'; readonly bytes: Uint8Array }

type OpenOptions = {
  readonly links: Links
  readonly time: LinkTime
  /** Ends the attempt, and later the wait in `next`. */
  readonly signal: AbortSignal
  /** For the whole handshake. */
  readonly boundMs: number
  /** Whether this is a shell over SSH: it has no `position`, and its output can be held back. */
  readonly isShell: boolean
}

/** One connection of a console, whose output is read as fast as the caller takes it. */
export class ConsoleSocket {
  readonly #options: OpenOptions
  readonly #over = new AbortController()
  readonly #inbox: Received[] = []
  #link: Link | undefined
  #inboxBytes = 0
  #isPaused = false
  #heardMs: number
  #close: ConsoleClose | undefined
  #isLeft = false
  #wake: () => void = () => {}

  private constructor(options: OpenOptions) {
    this.#options = options
    this.#heardMs = options.time.monotonicMs()
    options.signal.addEventListener('abort', () => this.#wake(), { signal: this.#over.signal })
  }

  /** Connects and upgrades. Rejects as {@link Links.open} does, and with ConnectionFailed if it takes too long. */
  static async open(path: string, options: OpenOptions): Promise<ConsoleSocket> {
    const { links, time, signal, boundMs } = options
    const socket = new ConsoleSocket(options)
    const attempt = new AbortController()
    const giveUp = (): void => attempt.abort(signal.reason)
    const settled = new AbortController()
    const bound = time.sleep(boundMs, settled.signal).then(
      () => attempt.abort(new ConnectionFailed('late', `${links.peer} did not answer in time`)),
      () => {},
    )
    signal.addEventListener('abort', giveUp)
    try {
      signal.throwIfAborted()
      socket.#link = await links.open(
        path,
        {
          onBytes: (bytes) => socket.#receive({ kind: 'output', bytes }),
          onText: (text) => socket.#receive(parseDaemonMessage(text)),
          onPing: () => socket.#heard(),
          onClosed: (close) => socket.#end(close),
        },
        attempt.signal,
      )
      socket.#limitInbox()
      void socket.#watch()
      return socket
    } catch (error) {
      socket.#over.abort()
      throw error
    } finally {
      signal.removeEventListener('abort', giveUp)
      settled.abort()
      await bound
    }
  }

  /** How the connection ended; undefined while it is open. */
  get closed(): ConsoleClose | undefined {
    return this.#close
  }

  /** Returns the next message; undefined after the last one, and at once when the signal is raised. */
  async next(): Promise<Received | undefined> {
    while (!this.#options.signal.aborted) {
      const received = this.#inbox.shift()
      if (received !== undefined) {
        if (received.kind === 'output') this.#inboxBytes -= received.bytes.length
        if (this.#isPaused && this.#inboxBytes < limits.clientConsoleOutputBytesMax) this.#resume()
        return received
      }
      if (this.#close !== undefined) return undefined
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
    return undefined
  }

  /**
   * Sends bytes for the guest, or a control message. Resolves when there is room for more, with whether the message
   * went out.
   */
  send(message: Uint8Array | object): Promise<boolean> {
    if (this.#link === undefined || this.#close !== undefined) return Promise.resolve(false)
    return this.#link.send(message instanceof Uint8Array ? message : JSON.stringify(message))
  }

  /** Closes the connection and drops what still comes. Cuts it if the daemon does not answer in time. */
  close(): void {
    if (this.#close !== undefined) return
    this.#isLeft = true
    if (this.#isPaused) this.#resume()
    this.#link?.close()
    void this.#after(limits.consoleCloseMs).then((elapsed) => elapsed && this.#link?.terminate())
  }

  #receive(received: Received | undefined): void {
    this.#heard()
    if (this.#isLeft || this.#close !== undefined || received === undefined) return
    this.#inbox.push(received)
    if (received.kind === 'output') this.#inboxBytes += received.bytes.length
    this.#limitInbox()
    this.#wake()
  }

  /**
   * Stops reading while too much output waits. A browser cannot. There a shell is asked to wait. The connection of a
   * serial console ends, and the next one goes on.
   */
  #limitInbox(): void {
    const link = this.#link
    if (link === undefined) return
    const { reading } = link
    if (reading === undefined && this.#inboxBytes > this.#unheldBytesMax) {
      this.#end(closeFor('viewer_behind'))
      link.close()
      return
    }
    if (this.#isPaused || this.#inboxBytes < limits.clientConsoleOutputBytesMax) return
    if (reading === undefined && !this.#options.isShell) return
    this.#pause(true)
  }

  #pause(isPaused: boolean): void {
    this.#isPaused = isPaused
    const reading = this.#link?.reading
    if (reading === undefined) void this.send({ output: { paused: isPaused } })
    else if (isPaused) reading.pause()
    else reading.resume()
  }

  /**
   * Bytes of output that may wait where reading cannot be stopped. A whole history comes at once, and so does what was
   * on its way.
   */
  get #unheldBytesMax(): number {
    const { isShell } = this.#options
    const atOnce = isShell ? limits.clientConsoleOnItsWayBytesMax : limits.consoleHistoryBytes
    return limits.clientConsoleOutputBytesMax + atOnce
  }

  #resume(): void {
    this.#heard()
    this.#pause(false)
  }

  #heard(): void {
    this.#heardMs = this.#options.time.monotonicMs()
  }

  #end(close: ConsoleClose): void {
    if (this.#close !== undefined) return
    this.#close = close
    this.#over.abort()
    this.#wake()
  }

  /** Detects a peer that vanished: its pings, or its answers, stay away. */
  async #watch(): Promise<void> {
    const { links, time, isShell } = this.#options
    if (!links.hearPings) return isShell ? undefined : this.#askAgain()
    while (await this.#after(limits.consolePingMs)) {
      // While reading is paused, pings are not read either.
      if (this.#isPaused) continue
      const silentMs = time.monotonicMs() - this.#heardMs
      if (silentMs > limits.clientConsoleSilentMs) this.#link?.terminate()
    }
  }

  /**
   * Asks for an answer from time to time. The daemon reads from a viewer whose input it holds back only at every other
   * ping.
   */
  async #askAgain(): Promise<void> {
    let [askedMs, unanswered] = [this.#heardMs, 0]
    while (await this.#after(limits.consolePingMs)) {
      unanswered = this.#heardMs < askedMs ? unanswered + 1 : 0
      if (unanswered > 1) return this.#link?.terminate()
      askedMs = this.#options.time.monotonicMs()
      void this.send({ position: {} })
    }
  }

  /** Resolves with true after this time, or with false if the connection ended before. */
  #after(ms: number): Promise<boolean> {
    return this.#options.time.sleep(ms, this.#over.signal).then(
      () => true,
      () => false,
    )
  }
}

/** A message as a viewer gets it: a newer daemon may have more codes of errors. */
type ReceivedMessage = DaemonMessage<string>

/** Parses a text message; undefined if it is not known, for example from a newer daemon. */
function parseDaemonMessage(text: string): ReceivedMessage | undefined {
  const { attached, position, guest, waiting, error } = objectInJson(text)
  if (isObject(attached)) return attachedFrom(attached)
  if (isObject(position)) {
    const { session, cursor } = position
    return isText(session) && isCount(cursor) ? { kind: 'position', session, cursor } : undefined
  }
  if (isObject(guest)) return isGuest(guest['state']) ? { kind: 'guest', state: guest['state'] } : undefined
  if (isObject(waiting)) return { kind: 'waiting' }
  if (!isObject(error)) return undefined
  const { code, detail } = error
  return isText(code) && isText(detail) ? { kind: 'error', code, detail } : undefined
}

function attachedFrom(attached: Readonly<Record<string, unknown>>): ReceivedMessage | undefined {
  const { mode, session, cursor, replay_bytes: replayBytes, lost_bytes: lostBytes, over } = attached
  if (mode === 'ssh') return { kind: 'attached', place: undefined }
  if (!isText(session) || !isCount(cursor) || !isCount(replayBytes) || !isCount(lostBytes)) return undefined
  const place = { session, cursor, replayBytes, lostBytes }
  return { kind: 'attached', place: over === true ? { ...place, over } : place }
}

const isGuest = (value: unknown): value is ConsoleGuest =>
  value === 'running' || value === 'sleeping' || value === 'paused'
const isText = (value: unknown): value is string => typeof value === 'string'
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0
