import type { Worker } from 'node:worker_threads'
import { ErrnoError } from '../ffi/errno-error.ts'
import { startThread } from './start-thread.ts'
import type { ThreadSource } from './start-thread.ts'

/** The errno of one flush; 0 when it succeeded. */
export type FlushAnswer = { readonly errno: number }

type Pending = { readonly resolve: () => void; readonly reject: (error: unknown) => void }

export const flushThreadBesideThis: ThreadSource = () => new URL('./flush-thread.ts', import.meta.url)

/**
 * Flushes files on a thread that does nothing else. libuv's threads do not fit: calls that hang elsewhere can take all of
 * them, and then no flush would end.
 */
export class FileFlusher {
  readonly #worker: Worker
  readonly #pending: Pending[] = []
  #failure: Error | undefined

  constructor(source: ThreadSource = flushThreadBesideThis) {
    this.#worker = startThread(source, undefined)
    this.#worker.on('message', (answer: FlushAnswer) => this.#settle(answer))
    this.#worker.on('error', (cause) => this.#fail(new Error('the flush thread failed', { cause })))
    this.#worker.on('exit', () => this.#fail(new Error('the flush thread has ended')))
    this.#worker.unref()
  }

  /** Flushes an open file, which must stay open until this settles (fdatasync(2)). Throws ErrnoError. */
  async datasync(fd: number): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#pending.push({ resolve, reject })
    // A process with a flush under way does not end.
    this.#worker.ref()
    this.#worker.postMessage(fd, [])
    await promise
  }

  /** Ends the thread, after the flush under way. */
  async end(): Promise<void> {
    await this.#worker.terminate()
  }

  #settle({ errno }: FlushAnswer): void {
    const next = this.#pending.shift()
    if (this.#pending.length === 0) this.#worker.unref()
    if (errno === 0) next?.resolve()
    else next?.reject(new ErrnoError('fdatasync', errno))
  }

  #fail(error: Error): void {
    this.#failure ??= error
    for (const { reject } of this.#pending.splice(0)) reject(this.#failure)
  }
}
