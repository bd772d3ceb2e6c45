import { limits } from '../../config/limits.ts'
import { ByteQueue } from '../../core/console/byte-queue.ts'
import { Listeners } from '../../lib/listeners.ts'
import { errorChain } from '../../log/error-chain.ts'
import type { WindowSize } from '../../core/console/console-viewer.ts'
import type { VmId } from '../../core/ids.ts'
import type { Log } from '../../log/log.ts'
import type { ConsoleOutput, ConsoleSession } from '../../ports/consoles.ts'
import type { ConsoleHistory } from './console-history.ts'
import type { ConsoleMaster } from './console-master.ts'
import type { HistoryFiles } from './history-files.ts'

export type PtySessionOptions = {
  readonly id: VmId
  readonly history: ConsoleHistory
  readonly files: HistoryFiles
  readonly log: Log
}

/** Whether input waits for `passInput` although there is a terminal. */
export type InputTerms = { readonly holdsInput: boolean }

/**
 * One VM's console from its start to its stop. It has a terminal while the VM may run. It has none while the VM sleeps:
 * then it has no new output, and input waits for the next terminal, and until that passes input. Input that waits is
 * also kept in a file, for the next daemon.
 */
export class PtySession implements ConsoleSession {
  readonly #vm: VmId
  readonly #history: ConsoleHistory
  readonly #files: HistoryFiles
  readonly #log: Log
  readonly #waiting = new ByteQueue()
  readonly #outputs = new Listeners()
  readonly #roomListeners = new Listeners()
  readonly #ends = new Listeners()
  #master: ConsoleMaster | undefined
  /** Whether input waits although there is a terminal. */
  #holdsInput = false

  constructor({ id, history, files, log }: PtySessionOptions) {
    this.#vm = id
    this.#history = history
    this.#files = files
    this.#log = log
    this.#tryFile('read', () => this.#waiting.push(files.input(id)))
  }

  get id(): string {
    return this.#history.session
  }

  get output(): ConsoleOutput {
    return this.#history.ring
  }

  get history(): ConsoleHistory {
    return this.#history
  }

  get master(): ConsoleMaster | undefined {
    return this.#master
  }

  get isAttached(): boolean {
    return this.#master !== undefined
  }

  get isOver(): boolean {
    return this.#history.isOver
  }

  onOutput(listener: () => void): () => void {
    return this.#outputs.add(listener)
  }

  onInputRoom(listener: () => void): () => void {
    return this.#roomListeners.add(listener)
  }

  onEnd(listener: () => void): () => void {
    return this.#ends.add(listener)
  }

  get inputWaiting(): number {
    return this.#inputTarget?.inputWaiting ?? this.#waiting.length
  }

  write(bytes: Uint8Array): void {
    if (this.isOver) return
    if (this.#inputTarget === undefined) this.#wait(bytes)
    else this.#inputTarget.write(bytes)
  }

  resize(size: WindowSize): void {
    if (this.isOver) return
    this.#history.window = size
    this.#master?.resize(size)
  }

  spend(bytes: number): void {
    this.#master?.spend(bytes)
  }

  /**
   * Attaches a terminal, which reads into the history of this session. Waiting input is written to it, at once or by
   * `passInput`.
   */
  attach(master: ConsoleMaster, { holdsInput }: InputTerms = { holdsInput: false }): void {
    this.#master = master
    // Until passInput, which also writes what waits.
    this.#holdsInput = true
    master.onOutput(() => this.#outputs.notify())
    master.onInputRoom(() => this.#roomListeners.notify())
    if (!holdsInput) this.passInput()
  }

  /** Writes waiting input to the terminal, and all later input. */
  passInput(): void {
    const master = this.#master
    if (master === undefined || !this.#holdsInput) return
    this.#holdsInput = false
    const wasFull = this.#waiting.length > limits.consoleInputBytesMax
    if (this.#waiting.length === 0) return
    master.write(this.#waiting.takeAll())
    this.#tryFile('removed', () => this.#files.removeInput(this.#vm))
    if (wasFull && master.inputWaiting <= limits.consoleInputBytesMax) this.#roomListeners.notify()
  }

  /**
   * Detaches the terminal after its last output; the session continues. Resolves when nothing reads into the history.
   */
  async detach(): Promise<void> {
    const master = this.#master
    if (master === undefined) return
    const unread = master.takeLeave()
    this.#master = undefined
    if (unread.length > 0 && !this.isOver) this.#waitAgain(unread)
    await master.closed
  }

  /** Ends the session after its last output, which stays. */
  async end(): Promise<void> {
    if (this.isOver) return
    this.#history.end()
    const detached = this.detach()
    this.#waiting.clear()
    this.#tryFile('removed', () => this.#files.removeInput(this.#vm))
    this.#ends.notify()
    await detached
  }

  /**
   * Closes this process's ends, at the end of the process. The session stays, and so does the pty if its master is
   * stored. Input that the terminal has not taken waits for the next daemon.
   */
  close(): void {
    const unread = this.#master?.close()
    this.#master = undefined
    if (unread !== undefined && unread.length > 0) this.#wait(unread)
  }

  /** The terminal if it takes input now. */
  get #inputTarget(): ConsoleMaster | undefined {
    return this.#holdsInput ? undefined : this.#master
  }

  /** Takes back input that the guest has not read. It was typed before what waits here. */
  #waitAgain(unread: Uint8Array): void {
    const later = this.#waiting.takeAll()
    if (later.length > 0) this.#tryFile('removed', () => this.#files.removeInput(this.#vm))
    this.#wait(unread)
    if (later.length > 0) this.#wait(later)
  }

  #wait(bytes: Uint8Array): void {
    this.#waiting.push(bytes)
    this.#tryFile('kept', () => this.#files.addInput(this.#vm, bytes))
  }

  /** Runs a file operation. If it fails, the input still waits in memory. */
  #tryFile(done: 'kept' | 'read' | 'removed', act: () => void): void {
    try {
      act()
    } catch (error) {
      this.#log.warn({ reason: errorChain(error) }, `the waiting input of a console could not be ${done}`)
    }
  }
}
