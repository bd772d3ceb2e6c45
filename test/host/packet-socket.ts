import { closeSync } from 'node:fs'
import { ErrnoError, hasErrno } from '../../src/host/ffi/errno-error.ts'
import { errno, library } from '../../src/host/ffi/koffi.ts'

/** linux/if_packet.h and asm-generic/socket.h */
const AF_PACKET = 17
const SOCK_RAW = 3
const SOL_SOCKET = 1
const SO_MARK = 36
const SOL_PACKET = 263
const PACKET_VNET_HDR = 15
/** linux/virtio_net.h: VIRTIO_NET_HDR_F_NEEDS_CSUM and VIRTIO_NET_HDR_GSO_TCPV4. */
const NEEDS_CSUM = 1
const GSO_TCPV4 = 1

const libc = library('libc.so.6')
const socket = libc.func('int socket(int domain, int type, int protocol)')
const setsockopt = libc.func('int setsockopt(int fd, int level, int name, const void *value, uint32_t size)')
const sendto = libc.func(
  'long sendto(int fd, const void *bytes, size_t size, int flags, const void *address, uint32_t addressSize)',
)

/** Sends frames of any kind at the point at which the kernel sends its own: before a device's filters. */
export class PacketSocket {
  readonly #fd: number

  constructor(mark = 0) {
    this.#fd = socket(AF_PACKET, SOCK_RAW, 0) as number
    if (this.#fd < 0) throw new ErrnoError('socket', errno())
    this.#set(SOL_PACKET, PACKET_VNET_HDR, 1)
    this.#set(SOL_SOCKET, SO_MARK, mark)
  }

  #set(level: number, name: number, value: number): void {
    if (setsockopt(this.#fd, level, name, Uint32Array.of(value), 4) !== 0)
      throw new ErrnoError(`setsockopt ${name}`, errno())
  }

  /**
   * Returns whether the kernel reported the frame as sent. `tcpSegmentBytes` is the size of the segments into which the
   * device must cut a TCP burst over IPv4.
   */
  send(ifindex: number, frame: Buffer, { tcpSegmentBytes = 0 } = {}): boolean {
    const header = Buffer.alloc(10)
    if (tcpSegmentBytes > 0) {
      header.set([NEEDS_CSUM, GSO_TCPV4])
      header.writeUInt16LE(54, 2)
      header.writeUInt16LE(tcpSegmentBytes, 4)
      header.writeUInt16LE(34, 6)
      header.writeUInt16LE(16, 8)
    }
    const address = Buffer.alloc(20)
    address.writeUInt16LE(AF_PACKET, 0)
    address.set(frame.subarray(12, 14), 2)
    address.writeInt32LE(ifindex, 4)
    const bytes = Buffer.concat([header, frame])
    if (sendto(this.#fd, bytes, bytes.length, 0, address, address.length) === bytes.length) return true
    const error = new ErrnoError('sendto', errno())
    if (hasErrno(error, 'ENOBUFS')) return false
    throw error
  }

  close(): void {
    closeSync(this.#fd)
  }
}
