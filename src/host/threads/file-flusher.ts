import { ErrnoError } from '../ffi/errno-error.ts'
import { TaskThread } from './task-thread.ts'
import type { ThreadSource } from './task-thread.ts'

/** The errno of one flush; 0 when it succeeded. */
export type FlushAnswer = { readonly errno: number }

export const flushThreadBesideThis: ThreadSource = () => new URL('./flush-thread.ts', import.meta.url)

/**
 * Flushes files on a thread that does nothing else. libuv's threads do not fit: calls that hang elsewhere can take all
 * of them, and then no flush would end.
 */
export class FileFlusher {
  readonly #thread: TaskThread<number, FlushAnswer>

  constructor(source: ThreadSource = flushThreadBesideThis) {
    this.#thread = new TaskThread({
      source,
      failure: (cause) =>
        cause === undefined
          ? new Error('the flush thread has ended')
          : new Error('the flush thread failed', { cause }),
    })
  }

  /** Flushes an open file, which must stay open until this settles (fdatasync(2)). Throws ErrnoError. */
  async datasync(fd: number): Promise<void> {
    const { errno } = await this.#thread.run(fd)
    if (errno !== 0) throw new ErrnoError('fdatasync', errno)
  }

  /** Ends the thread, after the flush under way. */
  async end(): Promise<void> {
    await this.#thread.end()
  }
}
