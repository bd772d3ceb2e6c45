import { limits } from '../../config/limits.ts'
import { hasErrno, ErrnoError } from '../ffi/errno-error.ts'
import { closeNetlink, DATAGRAM_BYTES, openNetlink, receiveIfThere, setOption } from './calls.ts'
import { decodeMessages } from './message.ts'
import { errno, library } from '../ffi/koffi.ts'
import type { Protocol } from './calls.ts'
import type { Message } from './message.ts'

const SO_RCVBUFFORCE = [1, 33] as const
const NETLINK_ADD_MEMBERSHIP = [270, 1] as const

export type EventsOptions = {
  readonly protocol: Protocol
  /** Multicast groups by number, e.g. RTNLGRP_LINK. */
  readonly groups: readonly number[]
  /** Called with the messages since the last call, in order, at most once per turn of the event loop. */
  readonly onEvents: (messages: readonly Message[]) => void
  /**
   * Called when the kernel had to drop messages (ENOBUFS, netlink(7)): everything known may be out of date. Called
   * again when those that it kept are read, because it may have dropped more meanwhile.
   */
  readonly onLost: () => void
}

/**
 * Receives the kernel's multicast messages. It opens in the network namespace of the calling thread. Throws ErrnoError.
 */
export class NetlinkEvents {
  readonly #fd: number
  readonly #options: EventsOptions
  readonly #datagram = Buffer.alloc(DATAGRAM_BYTES)
  readonly #endReading: () => void
  #closed = false
  /** Whether the kernel keeps what comes, because there was much. */
  #resting = false
  /** Whether the kernel dropped messages since the socket was last read empty. */
  #losing = false

  constructor(options: EventsOptions) {
    this.#options = options
    this.#fd = openNetlink(options.protocol).fd
    let end: (() => void) | undefined
    try {
      setOption(this.#fd, SO_RCVBUFFORCE, Uint32Array.of(limits.netlinkEventsBytes))
      // This comes before the first event, or its signal would be missed.
      end = onReadable(this.#fd, () => {
        if (!this.#resting) this.read()
      })
      for (const group of options.groups) {
        setOption(this.#fd, NETLINK_ADD_MEMBERSHIP, Uint32Array.of(group))
      }
    } catch (error) {
      end?.()
      closeNetlink(this.#fd)
      throw error
    }
    this.#endReading = end
  }

  /**
   * Reports the messages that are already there, a bounded number per turn of the event loop. Returns whether these
   * were all. If not, it reads on after a short rest.
   */
  read(): boolean {
    if (this.#closed) return true
    const messages: Message[] = []
    let lost = false
    let all = true
    for (let count = 0; ; count++) {
      if (count === limits.netlinkEventsPerTurn) {
        all = false
        this.#rest()
        break
      }
      try {
        const datagram = receiveIfThere(this.#fd, { into: this.#datagram, what: 'events' })
        if (datagram === undefined) break
        messages.push(...decodeMessages(Buffer.from(datagram)))
      } catch (error) {
        lost = true
        if (!hasErrno(error, 'ENOBUFS')) break
      }
    }
    if (messages.length > 0) this.#options.onEvents(messages)
    // Until the socket is read empty, the kernel may drop more, and does not say so again (netlink_overrun).
    if (lost || (all && this.#losing)) this.#options.onLost()
    this.#losing = !all && (lost || this.#losing)
    return all
  }

  /** Leaves time for other work, whatever comes. The kernel drops what it has no room for meanwhile. */
  #rest(): void {
    if (this.#resting) return
    this.#resting = true
    setTimeout(() => {
      this.#resting = false
      this.read()
    }, limits.netlinkEventsRestMs).unref()
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#endReading()
    closeNetlink(this.#fd)
  }
}

/** asm-generic/fcntl.h; the same on x86-64 and arm64. */
const F_SETFL = 4
const F_SETOWN = 8
const O_ASYNC = 0o20000

const fcntl = library('libc.so.6').func('int fcntl(int fd, int command, ...)')

const readers = new Map<number, () => void>()
let listening = false

/**
 * Calls `read`, in a turn of the event loop, after data arrived for a socket that libuv cannot watch. The kernel then
 * sends SIGIO (O_ASYNC in fcntl(2)), and Node handles signals in its event loop. So no thread waits, and nothing is
 * polled. A signal says neither how much arrived nor for which socket, so every reader is called, and reads until
 * nothing is left.
 *
 * It does not keep the process alive. Returns a function that ends it, to be called before the socket is closed. Throws
 * ErrnoError.
 */
function onReadable(fd: number, read: () => void): () => void {
  // The handler is never removed: without one the signal would end the process.
  if (!listening) process.on('SIGIO', readAll)
  listening = true
  readers.set(fd, read)
  const end = (): void => {
    readers.delete(fd)
    fcntl(fd, F_SETFL, 'int', 0)
  }
  if (fcntl(fd, F_SETOWN, 'int', process.pid) < 0 || fcntl(fd, F_SETFL, 'int', O_ASYNC) < 0) {
    const failed = errno()
    end()
    throw new ErrnoError(`fcntl O_ASYNC ${fd}`, failed)
  }
  return end
}

function readAll(): void {
  for (const read of readers.values()) read()
}
