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
  /** Size of the viewer's terminal, if it has one. */
  readonly window?: WindowSize | undefined
} & (
  | {
      readonly mode: 'tty'
      /** Whether to wait for the VM's next start instead of ending. */
      readonly follow: boolean
    }
  | {
      readonly mode: 'ssh'
      readonly user?: string | undefined
      /** The fingerprint of a changed host key, to be accepted from now on. */
      readonly acceptHostKey?: string | undefined
    }
)

/**
 * - `attached`: a session begins, or the earlier one goes on (`again`); `place` is absent for SSH
 * - `waiting`: waiting for the VM's start
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
  /** Milliseconds of a monotonic clock. */
  readonly monotonicMs: () => number
}

/** Failures during a restart of the daemon; any other means that another server answers there. */
const PASSING: ReadonlySet<FailureKind> = new Set([
  'unresolved',
  'refused',
  'unreachable',
  'unwelcome',
  'late',
  'broken',
])

/**
 * A VM's console as its viewer sees it: a terminal that survives lost connections and restarts of the daemon. A shell
 * over SSH does not: it ends with its connection.
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

  /** Throws node:tls's error if certificate and key do not match or are not PEM. Sends nothing yet. */
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

  /** Sends input to the guest. Input is kept while the daemon is away; resolves when there is room for more. */
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

  /** Ends the events. Input written before still goes to the guest if there is a connection. */
  close(): void {
    this.#over.abort()
  }

  /**
   * Yields events; can be read once. Throws the error of the first connection (see {@link ConsoleSocket.open}). Later
   * it throws only errors that a restarted daemon would not cause; it waits out all others.
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

  /** Passes on the events of one socket; returns whether a session began. */
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
            // A session announces itself again when output is lost.
            if (sending.signal.aborted) {
              sending = new AbortController()
              void this.#input.sendTo(send, sending.signal)
            }
            yield { ...received, again }
            break
          }
          case 'waiting':
            // Input for the previous session must not reach another. New input waits for the next session.
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

  /** Returns whether the session is the same as before. */
  #attach(place: AttachedPlace | undefined): boolean {
    if (place === undefined) return false
    const again = this.#session === place.session
    if (this.#session !== undefined && !again) this.#input.drop()
    this.#session = place.session
    this.#cursor = place.cursor
    return again
  }

  /** Tries until there is a connection again, or there cannot be one. */
  async *#reopen(
    because: ConsoleClose,
    atOnce: boolean,
  ): AsyncGenerator<ConsoleEvent, ConsoleSocket | ConsoleClose> {
    // A reconnect that works at once is not reported. A terminal that was too slow has taken all its output by now.
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

/**
 * Converts a failure to reconnect to the session's end; undefined if another attempt may help. Throws all other errors.
 */
function endBehind(error: unknown): ConsoleClose | undefined {
  if (error instanceof ConnectionFailed && PASSING.has(error.kind)) return undefined
  if (error instanceof UnexpectedAnswer && error.status >= 500) return undefined
  if (!(error instanceof ApiProblem)) throw error
  // The daemon may still count our own lost connection as a viewer.
  if (error.problem.retryable || error.code === 'console_viewers_full') return undefined
  if (error.code === 'vm_not_running') return { status: 1000, code: 'vm_stopped', words: '' }
  if (error.code === 'not_found' || error.code === 'vm_deleting')
    return { status: 1000, code: 'vm_deleted', words: '' }
  throw error
}
