import { closeSync } from 'node:fs'
import { ErrnoError } from '../ffi/errno-error.ts'
import { errno, library } from '../ffi/koffi.ts'
import { watchDescriptor } from '../ffi/watch-descriptor.ts'
import { HEADER_BYTES, RingBuffer } from './ring-buffer.ts'
import { decodeEvent, EVENT_HEADER_BYTES } from './traffic-maps.ts'
import type { TrafficEvent } from './traffic-maps.ts'

/** linux/eventpoll.h */
const EPOLL_CLOEXEC = 0o2000000
const EPOLL_CTL_ADD = 1
const EPOLLIN = 0x1
const EPOLLET = 0x8000_0000
/** struct epoll_event has 12 bytes on x86-64 and 16 elsewhere. The events come first. */
const EPOLL_EVENT_BYTES = 16

const libc = library('libc.so.6')
const epoll_create1 = libc.func('int epoll_create1(int flags)')
const epoll_ctl = libc.func('int epoll_ctl(int set, int operation, int fd, void *event)')
const epoll_wait = libc.func('int epoll_wait(int set, void *events, int max, int timeout)')

export type TrafficEventsOptions = {
  /** The descriptor of the map `traffic_events`, and its size in bytes. */
  readonly fd: number
  readonly bytes: number
  /** Called when records came since the last call. */
  readonly onEvents: () => void
}

/**
 * Reads the ring buffer of held frames, and reports new records. Waiting records stay in the ring, so it is readable
 * all the time, and we must wait for edges instead (epoll(7)). libuv does not report edges, so this has an epoll set of
 * its own. Throws ErrnoError.
 */
export class TrafficEvents {
  readonly #ring: RingBuffer
  readonly #set: number
  readonly #endWatch: () => void

  constructor({ fd, bytes, onEvents }: TrafficEventsOptions) {
    this.#set = watchEdges(fd)
    let endWatch: (() => void) | undefined
    try {
      endWatch = watchDescriptor(this.#set, () => {
        epoll_wait(this.#set, Buffer.alloc(EPOLL_EVENT_BYTES), 1, 0)
        onEvents()
      })
      this.#ring = new RingBuffer(fd, bytes)
    } catch (error) {
      endWatch?.()
      closeSync(this.#set)
      throw error
    }
    this.#endWatch = endWatch
  }

  /** Returns the next event, whose frame lies inside the ring. The event is undefined if the record was discarded. */
  next(): { readonly event: TrafficEvent | undefined; readonly end: number } | undefined {
    const record = this.#ring.next()
    if (record === undefined) return undefined
    const { bytes, end } = record
    return { event: bytes.length === 0 ? undefined : decodeEvent(bytes), end }
  }

  /** Releases all events before `end`. Returns whether the ring had no room, not even for an event without a frame. */
  release(end: number): boolean {
    const eventBytes = HEADER_BYTES + EVENT_HEADER_BYTES
    return this.#ring.release(end) + eventBytes >= this.#ring.bytes
  }

  isHalfFull(): boolean {
    return this.#ring.usedBytes() > this.#ring.bytes / 2
  }

  /** Ends the watch. Frames inside the ring must not be accessed afterwards. */
  close(): void {
    this.#endWatch()
    closeSync(this.#set)
    this.#ring.close()
  }
}

function watchEdges(fd: number): number {
  const set = epoll_create1(EPOLL_CLOEXEC) as number
  if (set < 0) throw new ErrnoError('epoll_create1', errno())
  const event = Buffer.alloc(EPOLL_EVENT_BYTES)
  event.writeUInt32LE((EPOLLIN | EPOLLET) >>> 0)
  if (epoll_ctl(set, EPOLL_CTL_ADD, fd, event) === 0) return set
  const failed = errno()
  closeSync(set)
  throw new ErrnoError('wait for the ring buffer of held frames', failed)
}
