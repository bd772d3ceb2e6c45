import { limits } from '../../config/limits.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { closeNetlink, DATAGRAM_BYTES, MSG_DONTWAIT, openNetlink, receive, setOption } from './calls.ts'
import { decodeMessages } from './message.ts'
import { onReadable } from './readable-signal.ts'
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
  /** Called when the kernel had to drop messages (ENOBUFS, netlink(7)): everything known may be out of date. */
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

  constructor(options: EventsOptions) {
    this.#options = options
    this.#fd = openNetlink(options.protocol).fd
    let end: (() => void) | undefined
    try {
      setOption(this.#fd, SO_RCVBUFFORCE, Uint32Array.of(limits.netlinkEventsBytes))
      // This comes before the first event, or its signal would be missed.
      end = onReadable(this.#fd, () => this.read())
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

  /** Reports the messages that are already there, a bounded number per turn of the event loop. */
  read(): void {
    if (this.#closed) return
    const messages: Message[] = []
    let lost = false
    for (let count = 0; ; count++) {
      if (count === limits.netlinkEventsPerTurn) {
        setImmediate(() => this.read()).unref()
        break
      }
      try {
        const datagram = receive(this.#fd, { into: this.#datagram, what: 'events', flags: MSG_DONTWAIT })
        messages.push(...decodeMessages(Buffer.from(datagram)))
      } catch (error) {
        if (hasErrno(error, 'EAGAIN')) break
        lost = true
        if (!hasErrno(error, 'ENOBUFS')) break
      }
    }
    if (messages.length > 0) this.#options.onEvents(messages)
    if (lost) this.#options.onLost()
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#endReading()
    closeNetlink(this.#fd)
  }
}
