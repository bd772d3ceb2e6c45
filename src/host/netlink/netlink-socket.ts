import { constants } from 'node:os'
import { limits } from '../../config/limits.ts'
import { errno, library } from '../ffi/koffi.ts'
import {
  decodeAttributes,
  decodeMessages,
  decodeString,
  encodeMessage,
  NLM_F_ACK,
  NLM_F_ACK_TLVS,
  NLM_F_CAPPED,
  NLM_F_DUMP,
  NLM_F_DUMP_INTR,
  NLM_F_REQUEST,
  NLMSG_DONE,
  NLMSG_ERROR,
} from './message.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import type { Message } from './message.ts'

export const NETLINK_ROUTE = 0
export const NETLINK_NETFILTER = 12

export type Request = {
  /** For error messages: what is asked, e.g. `get link vmt100001`. */
  readonly what: string
  readonly type: number
  readonly body: Buffer
}

const AF_NETLINK = 16
const SOCK_RAW = 3
const SOCK_CLOEXEC = 0o2000000
const SOL_SOCKET = 1
const SO_RCVTIMEO = 20
const SOL_NETLINK = 270
const NETLINK_EXT_ACK = 11
const NETLINK_GET_STRICT_CHK = 12
const MSG_TRUNC = 0x20
const NLMSGERR_ATTR_MSG = 1
const REQUEST_HEADER_BYTES = 16
/** The kernel fills dumps into datagrams of at most this size (netlink_dump in net/netlink/af_netlink.c). */
const DATAGRAM_BYTES = 32 * 1024

const libc = library('libc.so.6')
const socket = libc.func('int socket(int domain, int type, int protocol)') as (...args: number[]) => number
const setsockopt = libc.func('int setsockopt(int fd, int level, int name, const void *value, uint32_t size)')
const send = libc.func('long send(int fd, const void *bytes, size_t size, int flags)')
const receive = libc.func('long recv(int fd, void *bytes, size_t size, int flags)')
const close = libc.func('int close(int fd)')

/**
 * One netlink socket, asked one request at a time. Calls are synchronous: the kernel does the work inside send(2), so an
 * answer is there when it returns, some microseconds later, and a worker thread would cost more than it saves.
 */
export class NetlinkSocket {
  readonly #fd: number
  readonly #datagram = Buffer.alloc(DATAGRAM_BYTES)
  readonly #dumpAttempts: number
  #sequence = 0

  /** Opens a socket in the network namespace of the calling thread. */
  constructor(
    protocol: typeof NETLINK_ROUTE | typeof NETLINK_NETFILTER,
    options: { readonly dumpAttempts?: number } = {},
  ) {
    this.#dumpAttempts = options.dumpAttempts ?? limits.netlinkDumpAttempts
    this.#fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)
    if (this.#fd < 0) throw new ErrnoError('open netlink socket', errno())
    // Strict checking makes the kernel honour the filters of a dump (Linux 4.20).
    for (const option of [NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK]) {
      this.#setOption(SOL_NETLINK, option, Uint32Array.of(1))
    }
    const timeout = BigInt64Array.of(0n, BigInt(limits.netlinkAnswerMs) * 1000n)
    this.#setOption(SOL_SOCKET, SO_RCVTIMEO, timeout)
  }

  /** The one answer to a request. Throws ErrnoError with the errno that the kernel gives. */
  get(request: Request): Message {
    const [answer] = this.#exchange(request, NLM_F_REQUEST | NLM_F_ACK).answers
    if (answer === undefined) throw new ErrnoError(`netlink: ${request.what}`, constants.errno.ENOMSG)
    return answer
  }

  /** All answers of a dump. One that a change overtook is taken again, so that what it gives was true at one time. */
  dump(request: Request): readonly Message[] {
    for (let attempt = 0; attempt < this.#dumpAttempts; attempt++) {
      const { answers, overtaken } = this.#exchange(request, NLM_F_REQUEST | NLM_F_DUMP)
      if (!overtaken) return answers
    }
    throw new ErrnoError(`netlink: ${request.what}`, constants.errno.EINTR)
  }

  /** A request that changes something; returns when the kernel has done it. */
  change(request: Request): void {
    this.#exchange(request, NLM_F_REQUEST | NLM_F_ACK)
  }

  close(): void {
    close(this.#fd)
  }

  /** Sends a request and gathers what comes until its acknowledgement or the end of its dump. */
  #exchange(
    { what, type, body }: Request,
    flags: number,
  ): { answers: readonly Message[]; overtaken: boolean } {
    this.#sequence = (this.#sequence + 1) >>> 0
    const bytes = encodeMessage({ type, flags, sequence: this.#sequence, body })
    if (send(this.#fd, bytes, bytes.length, 0) < 0) throw new ErrnoError(`netlink: ${what}`, errno())

    const answers: Message[] = []
    let overtaken = false
    for (;;) {
      for (const message of this.#receive(what)) {
        // What is left of a request that was given up.
        if (message.sequence !== this.#sequence) continue
        overtaken ||= (message.flags & NLM_F_DUMP_INTR) !== 0
        if (message.type === NLMSG_DONE || message.type === NLMSG_ERROR) {
          throwStatus(what, message)
          return { answers, overtaken }
        }
        // A copy: the next datagram overwrites this one.
        answers.push({ ...message, body: Buffer.from(message.body) })
      }
    }
  }

  #receive(what: string): readonly Message[] {
    for (;;) {
      const size = Number(receive(this.#fd, this.#datagram, this.#datagram.length, MSG_TRUNC))
      if (size > this.#datagram.length) throw new ErrnoError(`netlink: ${what}`, constants.errno.EMSGSIZE)
      if (size >= 0) return decodeMessages(this.#datagram.subarray(0, size))
      const failed = errno()
      if (failed !== constants.errno.EINTR) throw new ErrnoError(`netlink: ${what}`, failed)
    }
  }

  #setOption(level: number, name: number, value: Uint32Array | BigInt64Array): void {
    if (setsockopt(this.#fd, level, name, value, value.byteLength) === 0) return
    const failed = errno()
    this.close()
    throw new ErrnoError(`netlink: set option ${name}`, failed)
  }
}

/** Throws what an acknowledgement or the end of a dump carries: a negated errno, and perhaps words (extended ack). */
function throwStatus(what: string, { type, flags, body }: Message): void {
  const errorNumber = body.length >= 4 ? -body.readInt32LE(0) : 0
  if (errorNumber === 0) return
  let words: Buffer | undefined
  if ((flags & NLM_F_ACK_TLVS) !== 0) {
    // An error repeats the request, or with NLM_F_CAPPED only its header, before the attributes.
    const echoed =
      type === NLMSG_DONE ? 0 : (flags & NLM_F_CAPPED) === 0 ? body.readUInt32LE(4) : REQUEST_HEADER_BYTES
    words = decodeAttributes(body.subarray(4 + ((echoed + 3) & ~3))).get(NLMSGERR_ATTR_MSG)
  }
  throw new ErrnoError(`netlink: ${what}`, errorNumber, words === undefined ? undefined : decodeString(words))
}
