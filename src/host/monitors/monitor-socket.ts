import { closeSync, fstatSync, lstatSync, openSync, constants, existsSync, watch } from 'node:fs'
import { Socket } from 'node:net'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { connectUnix, peerUserId } from '../ffi/unix-socket.ts'
import { abortable } from '../../lib/abortable.ts'
import { MonitorLost } from './monitor-error.ts'
import type { FSWatcher } from 'node:fs'

/** asm-generic/fcntl.h; the same on x86-64 and arm64. */
const O_PATH = 0o10000000

/** Thrown if a socket in a monitor's directory leads to another process. */
export class ForeignSocket extends Error {
  override readonly name = 'ForeignSocket'
}

/**
 * Connects to a socket in a monitor's directory. A monitor may put anything there. So a link is not followed, and the
 * listening process must run as the directory's owner. systemd gave the directory to the VM's user, inside a directory
 * that belongs to root. Both are checked before a byte is sent. Throws ForeignSocket, and ErrnoError from connect(2).
 */
export function connectToMonitor(path: string): Socket {
  const fd = connectWithoutLinks(path)
  try {
    const owner = lstatSync(dirname(path)).uid
    const peer = peerUserId(fd)
    if (peer !== owner)
      throw new ForeignSocket(`a process of user ${peer} listens on ${path}, which is for user ${owner}`)
    return new Socket({ fd })
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

function connectWithoutLinks(path: string): number {
  const file = openSync(path, O_PATH | constants.O_NOFOLLOW)
  try {
    if (!fstatSync(file).isSocket()) throw new ForeignSocket(`${path} is not a socket`)
    return connectUnix(`/proc/self/fd/${file}`)
  } finally {
    closeSync(file)
  }
}

/** The time between the creation of a socket's file and the moment its process listens (bind(2), listen(2)). */
const LISTEN_MS = 1

/**
 * Connects to a socket that may not exist yet, as soon as it does: the kernel reports every change in its directory
 * (inotify(7)). Throws MonitorLost if the directory does not exist or is removed, as happens at the end of its unit.
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
        if (!(error instanceof MonitorLost)) throw error
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
      throw new MonitorLost((error as NodeJS.ErrnoException).code ?? 'error')
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
