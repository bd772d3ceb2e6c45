import { closeSync, fstatSync, lstatSync, openSync, constants, existsSync } from 'node:fs'
import { Socket } from 'node:net'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { connectUnix, peerUserId } from '../ffi/unix-socket.ts'
import { limits } from '../../config/limits.ts'
import { abortable } from '../../lib/abortable.ts'
import { MonitorLost } from './monitor-error.ts'

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

/**
 * Connects to a socket that may not exist yet, soon after it does. Throws MonitorLost if the directory does not exist
 * or is removed, as happens at the end of its unit.
 *
 * It looks again and again, with a delay of 1 ms and about 3 % of the time that it has waited. inotify(7) would be a
 * little faster, but the monitor can write in the directory: libuv reads events until there are none, so a monitor that
 * makes them without end would stop the event loop.
 */
export async function onceListening<T>(
  path: string,
  connect: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  signal.throwIfAborted()
  let delayMs: number = limits.monitorSocketLookMsMin
  for (;;) {
    try {
      return await abortable(connect(), signal)
    } catch (error) {
      if (!(error instanceof MonitorLost)) throw error
      const isComing = error.why === 'ECONNREFUSED' || error.why === 'ENOENT'
      if (!isComing || !existsSync(dirname(path))) throw error
    }
    // A look at the file costs far less than an attempt. Each round waits, as the monitor may remove the file again.
    do {
      await abortable(delay(delayMs), signal)
      delayMs = Math.min(delayMs * DELAY_GROWTH, limits.monitorSocketLookMsMax)
    } while (isMissing(path) && existsSync(dirname(path)))
  }
}

const DELAY_GROWTH = 1.03

/** Returns whether there is no file. A link is not followed: it may lead to a file system that hangs. */
const isMissing = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) === undefined
