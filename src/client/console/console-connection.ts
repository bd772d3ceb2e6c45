import { limits } from '../../config/limits.ts'
import { BROKEN, closeFor, isPassing } from '../../core/console/close.ts'
import { unreachable } from '../../lib/assert.ts'
import { ApiProblem, UnexpectedAnswer } from '../api-problem.ts'
import { ConnectionFailed, mayPass } from '../connection-failed.ts'
import { pathPart } from '../path-part.ts'
import { ConsoleInput } from './console-input.ts'
import { ConsoleSocket } from './console-socket.ts'
import type { ConsoleClose } from '../../core/console/close.ts'
import type { Attachment, ConsoleGuest, WindowSize } from '../../core/console/console-viewer.ts'
import type { Links, LinkTime } from './link.ts'

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
 * - `attached`: a session begins, or the earlier one goes on (`again`); `place` is absent for SSH, and `guest` is what
 *   is known of it until the next `guest`
 * - `guest`: the guest does not run, or runs again
 * - `waiting`: waiting for the VM's start
 * - `error`: the daemon did not understand a message; the session goes on
 * - `lost`: a connection ended, or an attempt at one failed; the next attempt follows
 * - `away`: the next attempt is made after a pause, and so are all until there is another `attached` or `waiting`
 * - `closed`: the end
 */
export type ConsoleEvent =
  | {
      readonly kind: 'attached'
      readonly place: Attachment | undefined
      readonly again: boolean
      readonly guest: ConsoleGuest
    }
  | { readonly kind: 'output'; readonly bytes: Uint8Array }
  | { readonly kind: 'position'; readonly session: string; readonly cursor: number }
  | { readonly kind: 'guest'; readonly state: ConsoleGuest }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'error'; readonly code: string; readonly detail: string }
  | { readonly kind: 'lost'; readonly because: ConsoleClose | Error }
  | { readonly kind: 'away' }
  | { readonly kind: 'closed'; readonly close: ConsoleClose }

export type ConsoleOptions = LinkTime & {
  /** Whether a failure of the first connection is waited out too, as later ones are. */
  readonly insists?: boolean
}

/**
 * A VM's console as its viewer sees it: a terminal that survives lost connections and restarts of the daemon. A shell
 * over SSH does not: it ends with its connection. It is the same in vmhostctl and in the page, which differ in their
 * {@link Links}.
 */
export class ConsoleConnection {
  readonly #links: Links
  readonly #request: ConsoleRequest
  readonly #options: ConsoleOptions
  readonly #over = new AbortController()
  readonly #input: ConsoleInput
  #window: WindowSize | undefined
  #session: string | undefined
  #cursor = 0
  #isWaiting = false
  #guest: ConsoleGuest = 'running'
  /** Doubled with each connection that brought no session. */
  #pauseMs: number = limits.clientReconnectMsMin

  /** Sends nothing yet. */
  constructor(links: Links, request: ConsoleRequest, options: ConsoleOptions) {
    this.#links = links
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
   * Yields events to their end. After `closed` or an error they may be read again: a serial console goes on where it
   * was, a shell is a new one. Throws the error of the first connection (see {@link Links.open}). Later it throws only
   * errors that a restarted daemon would not cause; it waits out all others.
   */
  async *events(): AsyncGenerator<ConsoleEvent> {
    const { signal } = this.#over
    let socket: ConsoleSocket | undefined
    try {
      let next: ConsoleSocket | ConsoleClose =
        this.#options.insists === true ? yield* this.#keepTrying(true, judgeFirst) : await this.#open()
      while (next instanceof ConsoleSocket) {
        socket = next
        const beganMs = this.#options.monotonicMs()
        const attached: boolean = yield* this.#relay(socket)
        if (signal.aborted) return
        const lasted = attached && this.#options.monotonicMs() - beganMs > limits.clientReconnectMsMax
        const close: ConsoleClose = socket.closed ?? BROKEN
        if (this.#request.mode === 'ssh' || !isPassing(close)) {
          next = close
          continue
        }
        yield { kind: 'lost', because: close }
        // A reconnect that works at once is not reported. A terminal that was too slow has taken all its output by now.
        next = yield* this.#keepTrying(lasted || (attached && close.code === 'viewer_behind'), judgeLater)
      }
      // What was typed for this session must not reach another.
      this.#input.drop()
      yield { kind: 'closed', close: next }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      socket?.close()
    }
  }

  /** Passes on the events of one connection; returns whether a session began. */
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
            // A session announces itself again when output is lost. One that is over takes no input.
            if (sending.signal.aborted && !this.#isWaiting) {
              sending = new AbortController()
              void this.#input.sendTo(send, sending.signal)
            }
            yield { ...received, again, guest: this.#guest }
            break
          }
          case 'guest':
            // A connection begins with it.
            if (received.state !== this.#guest) yield received
            this.#guest = received.state
            break
          case 'waiting':
            sending.abort()
            this.#wait()
            yield received
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
  #attach(place: Attachment | undefined): boolean {
    const wasWaiting = this.#isWaiting
    this.#isWaiting = place?.over === true
    this.#pauseMs = limits.clientReconnectMsMin
    if (place === undefined) return false
    const again = this.#session === place.session
    if (!again) this.#guest = 'running'
    const isPast = this.#session !== undefined && (!again || this.#isWaiting)
    if (isPast && !wasWaiting) this.#input.drop()
    this.#session = place.session
    this.#cursor = place.cursor
    return again
  }

  /**
   * Input for the previous session must not reach another; new input waits for the next session. The place in the
   * previous session stays known, because the daemon shows the last session to a viewer that has not seen it.
   */
  #wait(): void {
    if (!this.#isWaiting) this.#input.drop()
    this.#isWaiting = true
  }

  /** Tries until there is a connection, or there cannot be one. */
  async *#keepTrying(
    atOnce: boolean,
    judge: (error: unknown) => ConsoleClose | undefined,
  ): AsyncGenerator<ConsoleEvent, ConsoleSocket | ConsoleClose> {
    let isAway = false
    let isDue = atOnce
    for (;;) {
      if (!isDue) {
        if (!isAway) yield { kind: 'away' }
        isAway = true
        const pauseMs = this.#pauseMs
        this.#pauseMs = Math.min(2 * pauseMs, limits.clientReconnectMsMax)
        await this.#options.sleep(pauseMs, this.#over.signal)
      }
      isDue = false
      try {
        return await this.#open()
      } catch (error) {
        this.#over.signal.throwIfAborted()
        const end = judge(error)
        if (end !== undefined) return end
        yield { kind: 'lost', because: error as Error }
      }
    }
  }

  #open(): Promise<ConsoleSocket> {
    const wakesMs = this.#request.mode === 'ssh' ? limits.sshWakeMs + limits.sshConnectMs : 0
    return ConsoleSocket.open(this.#path(), {
      links: this.#links,
      time: this.#options,
      signal: this.#over.signal,
      boundMs: limits.clientAnswerMs + wakesMs,
      isShell: this.#request.mode === 'ssh',
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
    return `/v1/vms/${pathPart(vm)}/console?${query.toString()}`
  }
}

/** Judges a failure of the first connection: returns undefined if another attempt may help, and throws other errors. */
function judgeFirst(error: unknown): undefined {
  if (error instanceof ConnectionFailed && mayPass(error)) return
  // Other viewers may stay for long, so this is not waited for in silence.
  const isFull = error instanceof ApiProblem && error.code === 'console_viewers_full'
  if (error instanceof ApiProblem && error.problem.retryable && !isFull) return
  throw error
}

/**
 * Judges a failure to reconnect: returns the session's end, or undefined if another attempt may help. Throws all other
 * errors.
 */
function judgeLater(error: unknown): ConsoleClose | undefined {
  if (error instanceof UnexpectedAnswer && error.status >= 500) return undefined
  if (error instanceof ApiProblem) {
    // The daemon may still count our own lost connection as a viewer.
    if (error.code === 'console_viewers_full') return undefined
    if (error.code === 'vm_not_running') return closeFor('vm_stopped')
    if (error.code === 'vm_migrated') return closeFor('vm_moved')
    if (error.code === 'not_found' || error.code === 'vm_deleting') return closeFor('vm_deleted')
  }
  return judgeFirst(error)
}
