import { closeSync, fstatSync, lstatSync, openSync, constants } from 'node:fs'
import { Socket } from 'node:net'
import { dirname } from 'node:path'
import { connectUnix, peerUserId } from '../ffi/unix-socket.ts'

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
