import { closeSync } from 'node:fs'
import { completeFrames } from '../../core/network/complete-frame.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { errno, library } from '../ffi/koffi.ts'
import { setsockopt, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_RAW, socket } from '../ffi/socket-calls.ts'

/** linux/socket.h and linux/if_packet.h */
const AF_PACKET = 17
const SOL_PACKET = 263
const PACKET_QDISC_BYPASS = 20

/** struct sockaddr_ll */
const ADDRESS_BYTES = 20
const ETHERNET_BYTES = 14

const sendto = library('libc.so.6').func(
  'long sendto(int fd, const void *bytes, size_t size, int flags, const void *address, uint32_t addressSize)',
)

/**
 * Sends frames out of devices and bypasses their queues and filters (PACKET_QDISC_BYPASS in packet(7)), so the program
 * that held a frame does not see it again. Throws ErrnoError.
 */
export class FrameSender {
  readonly #fd: number

  /** Opens a socket in the network namespace of the calling thread; it receives nothing. */
  constructor() {
    const fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
    if (fd < 0) throw new ErrnoError('open packet socket', errno())
    this.#fd = fd
    if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, Int32Array.of(1), 4) === 0) return
    const failed = errno()
    this.close()
    throw new ErrnoError('set PACKET_QDISC_BYPASS of a packet socket', failed)
  }

  /**
   * Sends one frame. Returns false if the frame stands for segments that we cannot cut.
   *
   * Throws ErrnoError. ENOBUFS: the device has no carrier, or the guest does not empty its queue. ENXIO: the device is
   * gone. ENETDOWN: the device is down.
   *
   * @param gsoSize the payload of each segment that the frame stands for; 0 if the frame is a single packet
   */
  send(ifindex: number, frame: Uint8Array, gsoSize: number): boolean {
    const address = Buffer.alloc(ADDRESS_BYTES)
    address.writeUInt16LE(AF_PACKET, 0)
    // The protocol is in network order in both places.
    address.set(frame.subarray(ETHERNET_BYTES - 2, ETHERNET_BYTES), 2)
    address.writeInt32LE(ifindex, 4)
    const frames = completeFrames(frame, gsoSize)
    for (const bytes of frames) {
      if (sendto(this.#fd, bytes, bytes.length, 0, address, ADDRESS_BYTES) >= 0) continue
      throw new ErrnoError(`send a frame of ${bytes.length} bytes to device ${ifindex}`, errno())
    }
    return frames.length > 0
  }

  close(): void {
    closeSync(this.#fd)
  }
}
