import { writeSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { ByteQueue } from '../../core/console/byte-queue.ts'
import { Listeners } from '../../lib/listeners.ts'
import { errorChain } from '../../log/error-chain.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import type { Log } from '../../log/log.ts'

/**
 * Holds input on its way to a terminal, in order. Input that the terminal does not take waits here, and is offered
 * again less and less often. So a guest that never reads costs almost nothing. Node cannot wait until a pty becomes
 * writable: its streams for terminals write in blocking mode.
 */
export class ConsoleInput {
  readonly #fd: number
  readonly #log: Log
  readonly #waiting = new ByteQueue()
  readonly #roomListeners = new Listeners()
  #retryMs: number = limits.consoleInputRetryMsMin
  #retry: NodeJS.Timeout | undefined
  #closed = false

  /** @param fd a non-blocking descriptor that the caller owns, and closes after `close` */
  constructor(fd: number, log: Log) {
    this.#fd = fd
    this.#log = log
  }

  get waiting(): number {
    return this.#waiting.length
  }

  /** Calls the listener when the waiting input has fallen to the limit. */
  onRoom(listener: () => void): () => void {
    return this.#roomListeners.add(listener)
  }

  write(bytes: Uint8Array): void {
    if (this.#closed) return
    const taken = this.#waiting.length === 0 ? this.#offer(bytes) : 0
    if (this.#isClosed()) return
    this.#waiting.push(bytes.subarray(taken))
    this.#retryLater()
  }

  /** Removes the waiting input, and returns it in order. */
  takeWaiting(): Uint8Array {
    return this.#waiting.takeAll()
  }

  /** Drops the waiting input. */
  close(): void {
    this.#closed = true
    clearTimeout(this.#retry)
    this.#waiting.clear()
  }

  /** Returns how many bytes the terminal has taken. */
  #offer(bytes: Uint8Array): number {
    try {
      return writeSync(this.#fd, bytes)
    } catch (error) {
      if (hasErrno(error, 'EAGAIN')) return 0
      this.#log.error({ reason: errorChain(error) }, 'console input ended')
      this.close()
      return 0
    }
  }

  #flush(): void {
    const wasFull = this.#isFull()
    let sum = 0
    while (this.#waiting.length > 0 && sum < limits.consoleInputTurnBytesMax) {
      const head = this.#waiting.head()
      const taken = this.#offer(head)
      if (this.#isClosed()) break
      this.#waiting.drop(taken)
      sum += taken
      if (taken < head.length) break
    }
    this.#retryMs =
      sum > 0 ? limits.consoleInputRetryMsMin : Math.min(2 * this.#retryMs, limits.consoleInputRetryMsMax)
    this.#retryLater()
    if (wasFull && !this.#isFull()) this.#roomListeners.notify()
  }

  #retryLater(): void {
    if (this.#retry !== undefined || this.#waiting.length === 0) return
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      this.#flush()
    }, this.#retryMs)
  }

  /** A method instead of the field, because an offer may close the input. */
  #isClosed(): boolean {
    return this.#closed
  }

  #isFull(): boolean {
    return this.#waiting.length > limits.consoleInputBytesMax
  }
}
