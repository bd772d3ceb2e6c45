import { closeSync, readSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'
import { Listeners } from '../../lib/listeners.ts'
import { errorChain } from '../../log/error-chain.ts'
import { outsideLogContext } from '../../log/log.ts'
import { setNonBlocking } from '../ffi/descriptor.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { ConsoleInput } from './console-input.ts'
import { ConsoleReader } from './console-reader.ts'
import { makeRaw, openMaster, openSlave, setWindowSize, slavePath } from './open-pty.ts'
import type { WindowSize } from '../../core/console/console-viewer.ts'
import type { Log } from '../../log/log.ts'
import type { ConsoleOutput } from '../../ports/consoles.ts'
import type { ConsoleHistory } from './console-history.ts'

export type MasterOptions = {
  readonly history: ConsoleHistory
  readonly log: Log
  /** The budget that all consoles of the daemon share. */
  readonly shared?: TokenBucket
}

/** Makes the budget that all consoles of a process share. */
export const sharedBudget = (): TokenBucket =>
  new TokenBucket({
    perSecond: limits.consolesMovedBytesPerSecond,
    burst: limits.consoleMovedBurstBytes,
    nowMs: performance.now(),
  })

/**
 * The daemon's end of one terminal of a session: the master, which is always read.
 *
 * The slave is held open as well, but is not this process's controlling terminal. After its last slave has closed, a
 * master answers every read with EIO and every poll with hang-up, until a slave is opened again. With a slave open here
 * that never happens, and reading continues from one run of the VM to the next. The open slave does not keep a VM from
 * ending. Hang-up (SIGHUP) is sent when the last master closes, and the end of a session leader does not affect other
 * openings of a pty slave (disassociate_ctty in drivers/tty/tty_jobctrl.c).
 */
export class ConsoleMaster {
  readonly fd: number
  readonly path: string
  readonly #history: ConsoleHistory
  readonly #log: Log
  readonly #slave: number
  readonly #input: ConsoleInput
  readonly #reader: ConsoleReader
  readonly #outputs = new Listeners()
  readonly #closing = Promise.withResolvers<void>()
  #closed = false

  private constructor(
    fd: number,
    { history, log, shared = sharedBudget() }: MasterOptions,
    prepare: (slave: number) => void,
  ) {
    this.fd = fd
    this.path = slavePath(fd)
    this.#history = history
    this.#log = log.child({ pts: this.path })
    // No call may block in the kernel, and an earlier process, or systemd, may have made the descriptor blocking.
    setNonBlocking(fd)
    this.#slave = openSlave(this.path)
    try {
      prepare(this.#slave)
      this.#input = new ConsoleInput(fd, this.#log)
      this.#reader = new ConsoleReader({
        fd,
        ring: history.ring,
        shared,
        onOutput: () => this.#outputs.notify(),
        log: this.#log,
      })
    } catch (error) {
      closeSync(this.#slave)
      throw error
    }
  }

  /**
   * Opens a new pty with the window of its session. Throws ErrnoError; then nothing is left open, and the history still
   * belongs to the caller.
   */
  static open(options: MasterOptions): ConsoleMaster {
    const fd = openMaster()
    return this.#make(fd, options, (slave) => {
      makeRaw(slave)
      setWindowSize(fd, options.history.window)
    })
  }

  /**
   * Takes over the master of an earlier process. If it throws, e.g. ErrnoError because `fd` is not a master, it has
   * closed `fd`.
   */
  static adopt(fd: number, options: MasterOptions): ConsoleMaster {
    return this.#make(fd, options, () => {})
  }

  static #make(fd: number, options: MasterOptions, prepare: (slave: number) => void): ConsoleMaster {
    try {
      return outsideLogContext(() => new ConsoleMaster(fd, options, prepare))
    } catch (error) {
      closeSync(fd)
      throw error
    }
  }

  get output(): ConsoleOutput {
    return this.#history.ring
  }

  /** Resolves when nothing reads into the history any longer. */
  get closed(): Promise<void> {
    return this.#closing.promise
  }

  onOutput(listener: () => void): () => void {
    return this.#outputs.add(listener)
  }

  write(bytes: Uint8Array): void {
    this.#input.write(bytes)
  }

  get inputWaiting(): number {
    return this.#input.waiting
  }

  onInputRoom(listener: () => void): () => void {
    return this.#input.onRoom(listener)
  }

  resize(size: WindowSize): void {
    if (this.#closed) return
    try {
      setWindowSize(this.fd, size)
    } catch (error) {
      this.#log.error({ reason: errorChain(error) }, 'console resize failed')
    }
  }

  spend(bytes: number): void {
    this.#reader.spend(bytes)
  }

  /**
   * Reads the last output, and closes this process's ends. Returns the input that no program has read. Call it after
   * the VM's unit has ended.
   */
  takeLeave(): Uint8Array {
    if (this.#closed) return new Uint8Array(0)
    try {
      this.#reader.readRest()
    } catch (error) {
      this.#log.error({ reason: errorChain(error) }, 'last console output lost')
    }
    const unread = this.#unreadInput()
    this.#shut()
    return unread
  }

  /**
   * Closes this process's ends. The pty stays open if its master is stored.
   * Returns the input that the pty has not taken.
   */
  close(): Uint8Array {
    if (this.#closed) return new Uint8Array(0)
    const waiting = this.#input.takeWaiting()
    this.#shut()
    return waiting
  }

  /** Returns unread input. The kernel's part comes first, because it was typed earlier. */
  #unreadInput(): Uint8Array {
    const inKernel: Uint8Array[] = []
    try {
      setNonBlocking(this.#slave)
      inKernel.push(...readAll(this.#slave))
    } catch (error) {
      this.#log.error({ reason: errorChain(error) }, 'unread console input not taken back')
    }
    return Buffer.concat([...inKernel, this.#input.takeWaiting()])
  }

  #shut(): void {
    this.#closed = true
    this.#input.close()
    this.#closing.resolve(this.#reader.close())
    closeSync(this.#slave)
    closeSync(this.fd)
  }
}

/** Yields what a non-blocking terminal has to read now. */
function* readAll(fd: number): Generator<Uint8Array> {
  try {
    for (;;) {
      const piece = Buffer.alloc(limits.consoleReadBytes)
      const length = readSync(fd, piece)
      if (length === 0) return
      yield piece.subarray(0, length)
    }
  } catch (error) {
    if (!hasErrno(error, 'EAGAIN', 'EIO')) throw error
  }
}
