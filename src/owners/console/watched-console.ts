import { limits } from '../../config/limits.ts'
import { planReplay } from '../../core/console/ring.ts'
import type { CloseCode } from '../../core/console/close.ts'
import type { ConsoleGuest, ConsoleViewer, WindowSize } from '../../core/console/console-viewer.ts'
import type { StoppedAt } from '../../core/console/ring.ts'
import type { ConsoleSession, SessionOutput } from '../../ports/consoles.ts'

/** How a viewer wants to watch. */
export type Watching = {
  readonly stoppedAt?: StoppedAt
  /** Whether the viewer stays for later sessions; otherwise it leaves with the first one. */
  readonly follow: boolean
  readonly window?: WindowSize
}

/** How viewers are closed. */
export type Closing = { readonly code: CloseCode; readonly words?: string }

export type WatchedConsoleOptions = {
  /** Returns the state of the guest; undefined while it is not known. */
  readonly guest: () => ConsoleGuest | undefined
  /** Returns how all viewers are closed if the VM has no later session here; undefined if viewers that follow stay. */
  readonly endsWith: () => Closing | undefined
  /** Returns the output of the newest session when it has ended. */
  readonly lastSession: () => SessionOutput | undefined
  /** Called when the last viewer has left. */
  readonly onEmpty: () => void
}

const LAST_OUTPUT = 'this was its last output'

type Watcher = {
  readonly viewer: ConsoleViewer
  readonly follow: boolean
  /** The place at which the viewer had stopped, until it is attached. */
  stoppedAt?: StoppedAt
}

/** The answer to a viewer that asks for a pause of the output. */
const NOT_HELD_BACK =
  'the output of a serial console is not held back: read it when it comes, or connect again with session and since'

/**
 * Serves the viewers of one VM's console over successive sessions. All attached viewers have received the same bytes,
 * up to `#sent`. A new viewer is brought there first, so that it neither misses nor repeats a byte.
 */
export class WatchedConsole {
  readonly #watchers = new Set<Watcher>()
  readonly #options: WatchedConsoleOptions
  #session: ConsoleSession | undefined
  #stopListening: (() => void)[] = []
  /** Cursor of the next byte for all viewers. */
  #sent = 0
  #inputPaused = false
  #window: WindowSize | undefined
  /** As the viewers know it. */
  #guest: ConsoleGuest | undefined

  constructor(options: WatchedConsoleOptions) {
    this.#options = options
  }

  /** Sends the state of the guest to the viewers of its session if it is known and has changed. */
  noteGuest(state: ConsoleGuest | undefined): void {
    if (state === undefined || state === this.#guest || this.#session === undefined) return
    this.#flush()
    this.#guest = state
    for (const { viewer } of this.#watchers) viewer.send({ kind: 'guest', state })
  }

  watch(viewer: ConsoleViewer, { stoppedAt, follow, window }: Watching): void {
    this.#flush()
    const watcher: Watcher = { viewer, follow }
    this.#watchers.add(watcher)
    viewer.listen({
      onInput: (bytes) => this.#input(bytes),
      onResize: (size) => this.#resize(size),
      onPosition: () => this.#sendPosition(viewer),
      onOutputPaused: () => viewer.send({ kind: 'error', code: 'invalid_message', detail: NOT_HELD_BACK }),
      onClosed: () => this.#left(watcher),
    })
    if (window !== undefined) this.#resize(window)
    if (this.#inputPaused) viewer.pauseInput()
    if (this.#session === undefined) this.#watchWithoutSession(watcher, stoppedAt)
    else this.#attach(viewer, this.#session, stoppedAt)
  }

  #watchWithoutSession(watcher: Watcher, stoppedAt: StoppedAt | undefined): void {
    const { viewer, follow } = watcher
    const end = this.#options.endsWith()
    if (end !== undefined) viewer.close(end.code, end.words)
    else if (follow) this.#await(watcher, stoppedAt)
    else this.#showLast(viewer, stoppedAt)
  }

  begin(session: ConsoleSession): void {
    this.#forgetSession()
    this.#session = session
    this.#guest = this.#options.guest()
    this.#sent = session.output.end
    this.#stopListening = [
      session.onOutput(() => this.#flush()),
      session.onInputRoom(() => this.#resumeInput()),
      session.onEnd(() => this.end(this.#options.endsWith())),
    ]
    if (this.#window !== undefined) session.resize(this.#window)
    this.#pauseIfFull(session)
    for (const watcher of this.#watchers) {
      this.#attach(watcher.viewer, session, watcher.stoppedAt)
      delete watcher.stoppedAt
    }
  }

  /**
   * Lets a viewer wait for the next session, after what it has not seen of the last one. The next session may be the
   * one in which it had stopped, if its VM comes from another host. A cursor alone may be of any session.
   */
  #await(watcher: Watcher, stoppedAt: StoppedAt | undefined): void {
    const { viewer } = watcher
    if (stoppedAt?.session !== undefined) watcher.stoppedAt = stoppedAt
    const last = this.#options.lastSession()
    if (last !== undefined && hasMore(last, stoppedAt)) this.#replay(viewer, last, stoppedAt)
    viewer.send({ kind: 'waiting' })
  }

  /** Ends the session. If `closing` is undefined, viewers that follow stay. */
  end(closing?: Closing): void {
    this.#flush()
    this.#forgetSession()
    this.#resumeInput()
    for (const { viewer, follow } of this.#watchers) {
      if (closing === undefined && follow) viewer.send({ kind: 'waiting' })
      else viewer.close(closing?.code ?? 'vm_stopped', closing?.words)
    }
  }

  /** Shows the last session to a viewer that does not wait for the next one. */
  #showLast(viewer: ConsoleViewer, stoppedAt: StoppedAt | undefined): void {
    const last = this.#options.lastSession()
    if (last === undefined) return viewer.close('vm_stopped')
    this.#replay(viewer, last, stoppedAt)
    viewer.close('vm_stopped', LAST_OUTPUT)
  }

  #attach(viewer: ConsoleViewer, session: ConsoleSession, stoppedAt: StoppedAt | undefined): void {
    session.spend(this.#replay(viewer, session, stoppedAt))
  }

  /** Returns how many bytes were sent. */
  #replay(viewer: ConsoleViewer, session: SessionOutput, stoppedAt: StoppedAt | undefined): number {
    if (!viewer.isOpen) return 0
    const { from, lostBytes } = replayOf(session, stoppedAt)
    const { bytes } = session.output.since(from)
    const place = { session: session.id, cursor: from, replayBytes: bytes.length, lostBytes }
    const isOver = session !== this.#session
    viewer.send({ kind: 'attached', place: isOver ? { ...place, over: true } : place })
    if (bytes.length > 0) viewer.output(bytes)
    if (!isOver && this.#guest !== undefined) viewer.send({ kind: 'guest', state: this.#guest })
    return bytes.length
  }

  #flush(): void {
    const session = this.#session
    if (session === undefined || session.output.end === this.#sent) return
    const { start, bytes } = session.output.since(this.#sent)
    const lostBytes = start - this.#sent
    this.#sent = start + bytes.length
    const viewers = [...this.#watchers].map(({ viewer }) => viewer).filter(({ isOpen }) => isOpen)
    for (const viewer of viewers) {
      if (lostBytes > 0) {
        const place = { session: session.id, cursor: start, replayBytes: bytes.length, lostBytes }
        viewer.send({ kind: 'attached', place })
      }
      viewer.output(bytes)
    }
    session.spend(bytes.length * viewers.length)
  }

  #input(bytes: Uint8Array): void {
    if (this.#session === undefined) return
    if (this.#session.inputWaiting + bytes.length > limits.consoleInputKeptBytesMax) return
    this.#session.write(bytes)
    this.#pauseIfFull(this.#session)
  }

  /** Lets no viewer send more while the guest does not read; earlier viewers may have left input. */
  #pauseIfFull({ inputWaiting }: ConsoleSession): void {
    if (this.#inputPaused || inputWaiting <= limits.consoleInputBytesMax) return
    this.#inputPaused = true
    for (const { viewer } of this.#watchers) viewer.pauseInput()
  }

  #resumeInput(): void {
    if (!this.#inputPaused) return
    this.#inputPaused = false
    for (const { viewer } of this.#watchers) viewer.resumeInput()
  }

  /** Sets the size of the terminal. It has one window: the last size wins, also for later sessions. */
  #resize(size: WindowSize): void {
    this.#window = size
    this.#session?.resize(size)
  }

  #sendPosition(viewer: ConsoleViewer): void {
    if (this.#session === undefined) viewer.send({ kind: 'waiting' })
    else viewer.send({ kind: 'position', session: this.#session.id, cursor: this.#sent })
  }

  #left(watcher: Watcher): void {
    this.#watchers.delete(watcher)
    if (this.#watchers.size > 0) return
    this.#forgetSession()
    this.#options.onEmpty()
  }

  #forgetSession(): void {
    for (const stop of this.#stopListening.splice(0)) stop()
    this.#session = undefined
  }
}

const replayOf = ({ id, output: { start, end } }: SessionOutput, stoppedAt: StoppedAt | undefined) =>
  planReplay({ id, start, end }, stoppedAt)

/** Returns whether a session has kept output that a viewer has not seen. */
const hasMore = (session: SessionOutput, stoppedAt: StoppedAt | undefined): boolean =>
  replayOf(session, stoppedAt).from < session.output.end
