import { existsSync, watch } from 'node:fs'
import type { FSWatcher } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { abortable } from '../../lib/abortable.ts'
import { QmpLost } from './qmp-error.ts'

/** The time between the creation of a socket's file and the moment its process listens (bind(2), listen(2)). */
const LISTEN_MS = 1

/**
 * Connects to a socket that may not exist yet, as soon as it does: the kernel reports every change in its directory
 * (inotify(7)). Throws QmpLost if the directory does not exist or is removed, as happens at the end of its unit.
 */
export async function onceListening<T>(
  path: string,
  connect: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  signal.throwIfAborted()
  const directory = new WatchedDirectory(dirname(path))
  try {
    for (;;) {
      const change = directory.change()
      try {
        return await abortable(connect(), signal)
      } catch (error) {
        if (!(error instanceof QmpLost)) throw error
        if (error.why === 'ECONNREFUSED') await delay(LISTEN_MS, undefined, { signal })
        else if (error.why === 'ENOENT' && existsSync(dirname(path))) await abortable(change, signal)
        else throw error
      }
    }
  } finally {
    directory.close()
  }
}

class WatchedDirectory {
  readonly #watcher: FSWatcher
  #change = Promise.withResolvers<void>()

  constructor(path: string) {
    try {
      this.#watcher = watch(path, () => this.#notify())
    } catch (error) {
      throw new QmpLost((error as NodeJS.ErrnoException).code ?? 'error')
    }
    this.#watcher.on('error', () => this.#notify())
  }

  /** Resolves at the next change after this call. */
  change(): Promise<void> {
    this.#change = Promise.withResolvers()
    return this.#change.promise
  }

  close(): void {
    this.#watcher.close()
  }

  #notify(): void {
    this.#change.resolve()
  }
}
