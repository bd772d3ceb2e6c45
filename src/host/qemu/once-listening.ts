import { existsSync, watch } from 'node:fs'
import type { FSWatcher } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { abortable } from '../../lib/abortable.ts'
import { QmpLost } from './qmp-error.ts'

/** From the moment that a socket's file is there until somebody listens (bind(2), listen(2)). */
const LISTEN_MS = 1

/**
 * Connects to a socket that may be about to be made, as soon as it is: the kernel tells of every change in its directory
 * (inotify(7)). Throws QmpLost where the directory is not there or goes away, as it does with its unit.
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
      this.#watcher = watch(path, () => this.#tell())
    } catch (error) {
      throw new QmpLost((error as NodeJS.ErrnoException).code ?? 'error')
    }
    this.#watcher.on('error', () => this.#tell())
  }

  /** Resolves at the next change from now on. */
  change(): Promise<void> {
    this.#change = Promise.withResolvers()
    return this.#change.promise
  }

  close(): void {
    this.#watcher.close()
  }

  #tell(): void {
    this.#change.resolve()
  }
}
