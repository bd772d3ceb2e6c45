import { koffi, errno, library } from '../src/host/ffi/koffi.ts'
import { ErrnoError } from '../src/host/ffi/errno-error.ts'

/** Constants from the headers of the C library on Linux; the same on x86-64 and arm64. */
const AF_INET = 2
const SOCK_DGRAM = 2
const PAYLOAD_BYTES = 18
/** Datagrams per call; UIO_MAXIOV is 1024. */
const BATCH = 512

const IOVEC = koffi.struct({ base: 'void *', bytes: 'size_t' })
const MESSAGE = koffi.struct({
  name: 'void *',
  nameBytes: 'uint32_t',
  parts: 'void *',
  partCount: 'size_t',
  control: 'void *',
  controlBytes: 'size_t',
  flags: 'int',
  sent: 'uint32_t',
  pad: 'uint32_t',
})
const libc = library('libc.so.6')
const socket = libc.func('int socket(int domain, int type, int protocol)')
const connect = libc.func('int connect(int fd, const void *address, unsigned int bytes)')
const sendmmsg = libc.func('int sendmmsg(int fd, void *messages, unsigned int count, int flags)')
const close = libc.func('int close(int fd)')

/** Sends small datagrams to an IPv4 address as fast as one core can, many in a call (sendmmsg(2)). */
export class FastSender {
  readonly #fd: number
  readonly #messages: object

  constructor(ipv4: string, port: number) {
    this.#fd = Number(socket(AF_INET, SOCK_DGRAM, 0))
    const address = Buffer.alloc(16)
    address.writeUInt16LE(AF_INET, 0)
    address.writeUInt16BE(port, 2)
    for (const [index, byte] of ipv4.split('.').entries()) address.writeUInt8(Number(byte), 4 + index)
    if (connect(this.#fd, address, address.length) !== 0) throw new ErrnoError(`connect to ${ipv4}`, errno())
    const payload = koffi.alloc('uint8_t', PAYLOAD_BYTES) as object
    const part = koffi.alloc(IOVEC, 1) as object
    koffi.encode(part, IOVEC, { base: payload, bytes: PAYLOAD_BYTES })
    this.#messages = koffi.alloc(MESSAGE, BATCH) as object
    const message = (): object => ({ name: null, nameBytes: 0, parts: part, partCount: 1, ...NOTHING_MORE })
    koffi.encode(this.#messages, koffi.array(MESSAGE, BATCH), Array.from({ length: BATCH }, message))
  }

  /** Returns how many datagrams the kernel took within so many milliseconds. */
  sendFor(ms: number): number {
    const until = performance.now() + ms
    let sent = 0
    while (performance.now() < until) {
      const count = Number(sendmmsg(this.#fd, this.#messages, BATCH, 0))
      if (count < 0) throw new ErrnoError('sendmmsg', errno())
      sent += count
    }
    return sent
  }

  close(): void {
    close(this.#fd)
  }
}

const NOTHING_MORE = { control: null, controlBytes: 0, flags: 0, sent: 0, pad: 0 }
