import { WebSocket } from 'ws'
import { limits } from '../config/limits.ts'
import { ApiProblem, isProblem, UnexpectedAnswer } from './api-problem.ts'
import { ConnectionFailed, connectionFailed } from './connection-failed.ts'
import { BROKEN, parseClose, parseDaemonMessage } from './console-messages.ts'
import type { IncomingMessage } from 'node:http'
import type { Connection } from './connection.ts'
import type { ConsoleClose, DaemonMessage } from './console-messages.ts'

export type Received = DaemonMessage | { readonly kind: 'output'; readonly bytes: Uint8Array }

/** Resolves after so many milliseconds, or rejects when the signal is raised. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>

export type OpenOptions = {
  /** Ends the attempt, and later the wait in `next`. */
  readonly signal: AbortSignal
  readonly sleep: Sleep
  readonly monotonicMs: () => number
  /** For the whole handshake. */
  readonly boundMs: number
}

/** One WebSocket of a console, whose output is read as fast as the caller takes it. */
export class ConsoleSocket {
  readonly #ws: WebSocket
  readonly #over = new AbortController()
  readonly #options: OpenOptions
  readonly #inbox: Received[] = []
  #inboxBytes = 0
  #heardMs: number
  #close: ConsoleClose | undefined
  #isLeft = false
  #wake: () => void = () => {}

  private constructor(ws: WebSocket, options: OpenOptions) {
    this.#ws = ws
    this.#options = options
    this.#heardMs = options.monotonicMs()
    options.signal.addEventListener('abort', () => this.#wake(), { signal: this.#over.signal })
    // The first messages may arrive together with the answer to the handshake.
    ws.on('message', (data: Buffer, isBinary) => this.#receive(data, isBinary))
    ws.on('ping', () => (this.#heardMs = options.monotonicMs()))
    ws.on('close', (status, reason) =>
      this.#end(status === 1006 ? BROKEN : parseClose(status, String(reason))),
    )
  }

  /**
   * Connects and upgrades. Rejects with {@link ApiProblem} if the daemon refused, {@link UnexpectedAnswer} if the
   * answer is not from vmhostd, and {@link ConnectionFailed} if none came.
   */
  static async open(connection: Connection, path: string, options: OpenOptions): Promise<ConsoleSocket> {
    const { promise, resolve, reject } = Promise.withResolvers<ConsoleSocket>()
    const { url, ca, cert, key } = connection
    const { host: peer } = new URL(url)
    const settled = new AbortController()
    let secure = false
    let late = false
    const ws = new WebSocket(`wss://${peer}${path}`, {
      ...{ ca, cert, key, minVersion: 'TLSv1.3' },
      perMessageDeflate: false,
      // The daemon never has more than this on its way to one viewer.
      maxPayload: limits.consoleViewerBehindBytesMax,
      finishRequest: (request) => {
        request.on('socket', (socket) => socket.once('secureConnect', () => (secure = true)))
        request.end()
      },
    })
    const socket = new ConsoleSocket(ws, options)
    ws.on('open', () => resolve(socket))
    ws.on('unexpected-response', (_request, response) => void refusal(response).then(reject, reject))
    ws.on('error', (error) => {
      if (late) reject(new ConnectionFailed('late', `${peer} did not answer in time`))
      else reject(connectionFailed(error, { peer, silentAfterHandshake: secure }))
    })
    const bound = (async (): Promise<void> => {
      await options.sleep(options.boundMs, settled.signal)
      late = true
      ws.terminate()
    })().catch(() => {})
    const giveUp = (): void => ws.terminate()
    options.signal.addEventListener('abort', giveUp)
    try {
      if (options.signal.aborted) giveUp()
      const opened = await promise
      void opened.#watch()
      return opened
    } catch (error) {
      ws.terminate()
      throw error
    } finally {
      options.signal.removeEventListener('abort', giveUp)
      settled.abort()
      await bound
    }
  }

  /** How the socket ended; undefined while it is open. */
  get closed(): ConsoleClose | undefined {
    return this.#close
  }

  /** Returns the next message; undefined after the last one, and at once when the signal is raised. */
  async next(): Promise<Received | undefined> {
    while (!this.#options.signal.aborted) {
      const received = this.#inbox.shift()
      if (received !== undefined) {
        if (received.kind === 'output') this.#inboxBytes -= received.bytes.length
        if (this.#ws.isPaused && this.#inboxBytes < limits.clientConsoleOutputBytesMax) this.#resume()
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
    const { promise, resolve } = Promise.withResolvers<boolean>()
    if (this.#ws.readyState !== WebSocket.OPEN) return Promise.resolve(false)
    const binary = message instanceof Uint8Array
    this.#ws.send(binary ? message : JSON.stringify(message), { binary }, (error) => resolve(!error))
    return promise
  }

  /** Closes the socket and drops what still comes. Terminates it if the daemon does not answer in time. */
  close(): void {
    if (this.#close !== undefined) return
    this.#isLeft = true
    this.#resume()
    this.#ws.close(1000)
    void this.#after(limits.consoleCloseMs).then((elapsed) => elapsed && this.#ws.terminate())
  }

  #receive(data: Buffer, isBinary: boolean): void {
    this.#heardMs = this.#options.monotonicMs()
    if (this.#isLeft) return
    const received: Received | undefined = isBinary
      ? { kind: 'output', bytes: data }
      : parseDaemonMessage(data.toString())
    if (received === undefined) return
    this.#inbox.push(received)
    if (received.kind === 'output') this.#inboxBytes += received.bytes.length
    if (this.#inboxBytes >= limits.clientConsoleOutputBytesMax) this.#ws.pause()
    this.#wake()
  }

  #resume(): void {
    this.#heardMs = this.#options.monotonicMs()
    this.#ws.resume()
  }

  #end(close: ConsoleClose): void {
    this.#close = close
    this.#over.abort()
    this.#wake()
  }

  /** Detects a peer that vanished: its pings stay away. */
  async #watch(): Promise<void> {
    while (await this.#after(limits.consolePingMs)) {
      // While reading is paused, pings are not read either.
      if (this.#ws.isPaused) continue
      if (this.#options.monotonicMs() - this.#heardMs > limits.clientConsoleSilentMs) this.#ws.terminate()
    }
  }

  /** Resolves with true after this time, or with false if the socket ended before. */
  #after(ms: number): Promise<boolean> {
    return this.#options.sleep(ms, this.#over.signal).then(
      () => true,
      () => false,
    )
  }
}

/** Returns the answer to a refused upgrade as an error. */
async function refusal(response: IncomingMessage): Promise<Error> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    length += chunk.length
    if (length > limits.clientRefusalBytesMax) break
  }
  const problem = problemIn(Buffer.concat(chunks).toString())
  return problem ?? new UnexpectedAnswer(response.statusCode ?? 0)
}

function problemIn(text: string): ApiProblem | undefined {
  try {
    const body: unknown = JSON.parse(text)
    return isProblem(body) ? new ApiProblem(body) : undefined
  } catch {
    return undefined
  }
}
