import { createSecureContext } from 'node:tls'
import { limits } from '../config/limits.ts'
import { unreachable } from '../lib/assert.ts'
import { ApiProblem, UnexpectedAnswer } from './api-problem.ts'
import { ConnectionFailed } from './connection-failed.ts'
import { ConsoleInput } from './console-input.ts'
import { BROKEN } from './console-messages.ts'
import { ConsoleSocket } from './console-socket.ts'
import type { FailureKind } from './connection-failed.ts'
import type { Connection } from './connection.ts'
import type { WindowSize } from './console-input.ts'
import type { AttachedPlace, ConsoleClose } from './console-messages.ts'
import type { Sleep } from './console-socket.ts'

export type ConsoleRequest = {
  readonly vm: string
  /** The size of the viewer's terminal, if it is one. */
  readonly window?: WindowSize | undefined
} & (
  | { readonly mode: 'tty'; /** Wait for the VM's next start instead of an end. */ readonly follow: boolean }
  | {
      readonly mode: 'ssh'
      readonly user?: string | undefined
      /** The fingerprint of a changed host key, to take it from now on. */
      readonly acceptHostKey?: string | undefined
    }
)

/**
 * - `attached`: a session begins, or that of before goes on (`again`); `place` is absent for SSH
 * - `waiting`: for the VM's start
 * - `error`: the daemon did not understand a message; the session goes on
 * - `away`: the connection is lost and is made again, until there is another `attached` or `waiting`
 * - `closed`: the end
 */
export type ConsoleEvent =
  | { readonly kind: 'attached'; readonly place: AttachedPlace | undefined; readonly again: boolean }
  | { readonly kind: 'output'; readonly bytes: Uint8Array }
  | { readonly kind: 'position'; readonly session: string; readonly cursor: number }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'error'; readonly code: string; readonly detail: string }
  | { readonly kind: 'away'; readonly because: ConsoleClose }
  | { readonly kind: 'closed'; readonly close: ConsoleClose }

export type ConsoleOptions = {
  readonly sleep: Sleep
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicMs: () => number
}

/** What passes while a daemon is restarted; any other failure means that somebody else answers there. */
const PASSING: ReadonlySet<FailureKind> = new Set([
  'unresolved',
  'refused',
  'unreachable',
  'unwelcome',
  'late',
  'broken',
])

/**
 * A VM's console as its viewer sees it: a terminal that outlives connections and daemons. A shell over SSH does not: it
 * ends with its connection.
 */
export class ConsoleConnection {
  readonly #connection: Connection
  readonly #request: ConsoleRequest
  readonly #options: ConsoleOptions
  readonly #over = new AbortController()
  readonly #input: ConsoleInput
  #window: WindowSize | undefined
  #session: string | undefined
  #cursor = 0

  /** Throws node:tls's error where certificate and key are no pair or no PEM. Nothing is sent yet. */
  constructor(connection: Connection, request: ConsoleRequest, options: ConsoleOptions) {
    const { ca, cert, key } = connection
    createSecureContext({ ca, cert, key })
    this.#connection = connection
    this.#request = request
    this.#options = options
    this.#input = new ConsoleInput(options.sleep)
    this.#window = request.window
  }

  /** Offset of the next byte of output in its session. */
  get cursor(): number {
    return this.#cursor
  }

  /** Input for the guest, kept while the daemon is away; resolves when there is room for more. */
  write(bytes: Uint8Array): Promise<void> {
    return this.#input.write(bytes)
  }

  /** Whether more input may come without waiting. */
  get hasRoom(): boolean {
    return this.#input.hasRoom
  }

  resize(window: WindowSize): void {
    this.#window = window
    this.#input.resize(window)
  }

  /** Asks for a `position` event. */
  askPosition(): void {
    this.#input.askPosition()
  }

  /** Ends the events. What was written before still goes to the guest, where there is a connection. */
  close(): void {
    this.#over.abort()
  }

  /**
   * What happens, to be read once. Throws what the first connection ran into (see {@link ConsoleSocket.open}), and later
   * what no daemon that was restarted would answer; everything else is waited out.
   */
  async *events(): AsyncGenerator<ConsoleEvent> {
    const { signal } = this.#over
    let socket: ConsoleSocket | undefined
    try {
      socket = await this.#open()
      for (;;) {
        const beganMs = this.#options.monotonicMs()
        const attached: boolean = yield* this.#relay(socket)
        const lasted: boolean =
          attached && this.#options.monotonicMs() - beganMs > limits.clientReconnectMsMax
        const close: ConsoleClose = socket.closed ?? BROKEN
        if (signal.aborted) return
        const next: ConsoleSocket | ConsoleClose = this.#isFinal(close)
          ? close
          : yield* this.#reopen(close, lasted || (attached && close.code === 'viewer_behind'))
        if (!(next instanceof ConsoleSocket)) {
          yield { kind: 'closed', close: next }
          return
        }
        socket = next
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      socket?.close()
    }
  }

  /** Passes on what one socket brings; returns whether a session came of it. */
  async *#relay(socket: ConsoleSocket): AsyncGenerator<ConsoleEvent, boolean> {
    const send = (message: Uint8Array | object): Promise<boolean> => socket.send(message)
    let sending = new AbortController()
    sending.abort()
    let attached = false
    try {
      for (;;) {
        const received = await socket.next()
        if (received === undefined) return attached
        switch (received.kind) {
          case 'attached': {
            attached = true
            const again = this.#attach(received.place)
            // Within a session it comes again where output is lost.
            if (sending.signal.aborted) {
              sending = new AbortController()
              void this.#input.sendTo(send, sending.signal)
            }
            yield { ...received, again }
            break
          }
          case 'waiting':
            // What was typed for the session before is meant for no other; what comes now waits for the next.
            sending.abort()
            this.#input.drop()
            this.#session = undefined
            yield { kind: 'waiting' }
            break
          case 'output':
            this.#cursor += received.bytes.length
            yield received
            break
          case 'position':
          case 'error':
            yield received
            break
          default:
            unreachable(received)
        }
      }
    } finally {
      if (socket.closed === undefined && !sending.signal.aborted) this.#input.flush(send)
      sending.abort()
    }
  }

  /** Returns whether the session is that of before. */
  #attach(place: AttachedPlace | undefined): boolean {
    if (place === undefined) return false
    const again = this.#session === place.session
    if (this.#session !== undefined && !again) this.#input.drop()
    this.#session = place.session
    this.#cursor = place.cursor
    return again
  }

  /** Until there is a connection again, or none is to be had any more. */
  async *#reopen(
    because: ConsoleClose,
    atOnce: boolean,
  ): AsyncGenerator<ConsoleEvent, ConsoleSocket | ConsoleClose> {
    // What works at once is not worth a word; a terminal that was slow has by now taken what came.
    let pauseMs = atOnce ? 0 : limits.clientReconnectMsMin
    let isTold = false
    for (;;) {
      if (pauseMs > 0) {
        if (!isTold) yield { kind: 'away', because }
        isTold = true
        await this.#options.sleep(pauseMs, this.#over.signal)
      }
      try {
        return await this.#open()
      } catch (error) {
        const end = endBehind(error)
        if (end !== undefined) return end
        pauseMs = Math.min(Math.max(2 * pauseMs, limits.clientReconnectMsMin), limits.clientReconnectMsMax)
      }
    }
  }

  #isFinal({ status, code }: ConsoleClose): boolean {
    if (this.#request.mode === 'ssh') return true
    return !(status === 1001 || status === 1006 || code === 'viewer_behind')
  }

  #open(): Promise<ConsoleSocket> {
    const wakesMs = this.#request.mode === 'ssh' ? limits.sshWakeMs + limits.sshConnectMs : 0
    return ConsoleSocket.open(this.#connection, this.#path(), {
      ...this.#options,
      signal: this.#over.signal,
      boundMs: limits.clientAnswerMs + wakesMs,
    })
  }

  #path(): string {
    const { vm, mode } = this.#request
    const query = new URLSearchParams({ mode })
    if (this.#request.mode === 'ssh') {
      const { user, acceptHostKey } = this.#request
      if (user !== undefined) query.set('user', user)
      if (acceptHostKey !== undefined) query.set('accept_host_key', acceptHostKey)
    } else {
      if (this.#request.follow) query.set('follow', 'true')
      if (this.#session !== undefined) {
        query.set('session', this.#session)
        query.set('since', String(this.#cursor))
      }
    }
    if (this.#window !== undefined) {
      this.#input.forgetResize()
      query.set('cols', String(this.#window.cols))
      query.set('rows', String(this.#window.rows))
    }
    return `/v1/vms/${encodeURIComponent(vm)}/console?${query.toString()}`
  }
}

/** What a failure to connect again means for the session; undefined where trying on may help. Throws all else. */
function endBehind(error: unknown): ConsoleClose | undefined {
  if (error instanceof ConnectionFailed && PASSING.has(error.kind)) return undefined
  if (error instanceof UnexpectedAnswer && error.status >= 500) return undefined
  if (!(error instanceof ApiProblem)) throw error
  // The daemon may not know yet that the viewer whose place is taken is the one that comes back.
  if (error.problem.retryable || error.code === 'console_viewers_full') return undefined
  if (error.code === 'vm_not_running') return { status: 1000, code: 'vm_stopped', words: '' }
  if (error.code === 'not_found' || error.code === 'vm_deleting')
    return { status: 1000, code: 'vm_deleted', words: '' }
  throw error
}
