import { readFileSync } from 'node:fs'
import { descriptorOf } from '../host/ffi/tcp-socket.ts'
import { peerCredentials } from '../host/ffi/unix-socket.ts'
import type { Socket } from 'node:net'

/** The process at the other end of a local socket, in the words of the audit trail. */
export type LocalPeer = {
  readonly peer_pid?: number
  readonly peer_uid?: number
  /** The user who logged in and then became `peer_uid`, with sudo for example. Absent without a login. */
  readonly login_uid?: number
}

/** Value in /proc of a process that belongs to no login: -1 as an unsigned number (proc_pid_loginuid(5)). */
const NO_LOGIN = 4_294_967_295

/** Returns the process that connected to a socket of this host. Empty if its connection is gone already. */
export function localPeer(socket: Socket): LocalPeer {
  const fd = descriptorOf(socket)
  if (fd === undefined) return {}
  try {
    const { pid, uid } = peerCredentials(fd)
    return { peer_pid: pid, peer_uid: uid, ...loginOf(pid) }
  } catch {
    return {}
  }
}

function loginOf(pid: number): Pick<LocalPeer, 'login_uid'> {
  try {
    const login = Number(readFileSync(`/proc/${pid}/loginuid`, 'utf8'))
    return login === NO_LOGIN ? {} : { login_uid: login }
  } catch {
    // The process has ended, or the kernel keeps no logins.
    return {}
  }
}
