import { limits } from '../../src/config/limits.ts'
import { ringInMemory } from '../../src/core/console/ring.ts'
import { DEFAULT_WINDOW } from '../../src/core/console/console-viewer.ts'
import { Listeners } from '../../src/lib/listeners.ts'
import type { Ring } from '../../src/core/console/ring.ts'
import type { WindowSize } from '../../src/core/console/console-viewer.ts'
import type { ConsoleSession, MovedConsole } from '../../src/ports/consoles.ts'

const NEW = { end: 0, output: new Uint8Array(), window: DEFAULT_WINDOW }

/**
 * A session in memory, which outlives the daemon: its output and input since its VM's start, and its terminal's path.
 */
export class FakeTerminal {
  /** Path that changes each time the session gets a terminal. */
  path: string
  isOver = false
  /** Input typed while the session had no terminal. */
  readonly unread: Uint8Array[] = []
  readonly sessionId: string
  readonly history: Ring
  readonly #typed: Uint8Array[] = []
  window: WindowSize

  /** @param moved the session of another host that continues here */
  constructor(number: number, moved?: MovedConsole) {
    const { session, end, output, window } = moved ?? {
      ...NEW,
      session: number.toString(16).padStart(16, '0'),
    }
    this.path = `/dev/pts/${number}`
    this.sessionId = session
    this.window = window
    const kept = output.subarray(Math.max(0, output.length - end))
    this.history = ringInMemory(limits.consoleHistoryBytes, limits.consoleReadBytes, end - kept.length)
    this.history.write(kept)
  }

  /** All input that the guest has read, as text. */
  get typed(): string {
    return Buffer.concat(this.#typed).toString()
  }

  type(bytes: Uint8Array): void {
    this.#typed.push(bytes.slice())
  }
}

/** One life's view of a session; its guest reads input at once, unless the test stops it. */
export class FakeSession implements ConsoleSession {
  readonly id: string
  readonly output: Ring
  readonly terminal: FakeTerminal
  /** Bytes counted by `spend`. */
  spent = 0
  readonly #outputs = new Listeners()
  readonly #ends = new Listeners()
  readonly #roomListeners = new Listeners()
  readonly #waiting: Uint8Array[] = []
  #reading = true
  #attached = false
  #holdsInput = false
  #reported = true
  #over = false

  constructor(terminal: FakeTerminal) {
    this.terminal = terminal
    this.id = terminal.sessionId
    this.output = terminal.history
  }

  onOutput(listener: () => void): () => void {
    return this.#outputs.add(listener)
  }

  onEnd(listener: () => void): () => void {
    return this.#ends.add(listener)
  }

  onInputRoom(listener: () => void): () => void {
    return this.#roomListeners.add(listener)
  }

  get isAttached(): boolean {
    return this.#attached
  }

  /** Gets a terminal, or loses it. Input that its guest had not read waits for the next terminal. */
  attach(attached: boolean, { holdsInput = false } = {}): void {
    this.#attached = attached
    this.#holdsInput = attached
    if (!attached) this.terminal.unread.push(...this.#waiting.splice(0))
    else if (!holdsInput) this.passInput()
    this.#notify()
  }

  /** Writes waiting input to the terminal, and all later input. */
  passInput(): void {
    if (!this.#attached || !this.#holdsInput) return
    this.#holdsInput = false
    for (const bytes of this.terminal.unread.splice(0)) this.write(bytes)
  }

  get inputWaiting(): number {
    return [...this.#waiting, ...this.terminal.unread].reduce((sum, { length }) => sum + length, 0)
  }

  write(bytes: Uint8Array): void {
    if (this.#over) return
    if (!this.#attached || this.#holdsInput) this.terminal.unread.push(bytes.slice())
    else if (this.#reading) this.terminal.type(bytes)
    else this.#waiting.push(bytes.slice())
  }

  resize(size: WindowSize): void {
    if (!this.#over) this.terminal.window = size
  }

  spend(bytes: number): void {
    this.spent += bytes
  }

  /** The guest writes; listeners hear of it in a later turn of the event loop, once for many writes. */
  say(said: Uint8Array): void {
    this.output.write(said)
    if (!this.#reported) return
    this.#reported = false
    setImmediate(() => this.#notify())
  }

  /** Sets whether the guest reads its input. Waiting input is read when it reads again. */
  readInput(reading: boolean): void {
    this.#reading = reading
    const wasFull = this.inputWaiting > limits.consoleInputBytesMax
    if (!reading) return
    for (const bytes of this.#waiting.splice(0)) this.terminal.type(bytes)
    if (wasFull) this.#roomListeners.notify()
  }

  /** Ends the session, as the end of the VM does. */
  end(): void {
    if (this.#over) return
    this.attach(false)
    this.#over = true
    this.terminal.isOver = true
    this.terminal.unread.length = 0
    this.#ends.notify()
  }

  /** Detaches all listeners, as the end of the daemon does. */
  forget(): void {
    this.#reported = true
    this.#over = true
  }

  #notify(): void {
    if (this.#reported) return
    this.#reported = true
    this.#outputs.notify()
  }
}
