import { constants } from 'node:os'
import { limits } from '../../config/limits.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { closeNetlink, DATAGRAM_BYTES, openNetlink, receive, receiveInThread, sendRequest } from './calls.ts'
import { sendRequestInThread, setOption } from './calls.ts'
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
import type { Protocol } from './calls.ts'
import type { Message } from './message.ts'

export { NETLINK_NETFILTER, NETLINK_ROUTE } from './calls.ts'

export type Request = {
  /** The request in words, for error messages, e.g. `get link vmt100001`. */
  readonly what: string
  readonly type: number
  /** The flags besides those of every request, e.g. NLM_F_CREATE. */
  readonly flags?: number
  readonly body: Buffer
}

const SO_RCVTIMEO = [1, 20] as const
const NETLINK_EXT_ACK = [270, 11] as const
const NETLINK_GET_STRICT_CHK = [270, 12] as const
const NLMSGERR_ATTR_MSG = 1
const REQUEST_HEADER_BYTES = 16

type Open = ReturnType<typeof openNetlink>

function openSocket(protocol: Protocol): Open {
  const open = openNetlink(protocol)
  try {
    // Strict checking makes the kernel honour the filters of a dump (Linux 4.20).
    for (const option of [NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK]) {
      setOption(open.fd, option, Uint32Array.of(1))
    }
    setOption(open.fd, SO_RCVTIMEO, BigInt64Array.of(0n, BigInt(limits.netlinkAnswerMs) * 1000n))
    return open
  } catch (error) {
    closeNetlink(open.fd)
    throw error
  }
}

/**
 * A netlink socket that sends one request at a time. All calls but `pages` are synchronous. The kernel does the work
 * inside send(2), so the answer is there when send returns, some microseconds later. A thread would cost more than it
 * saves.
 */
export class NetlinkSocket {
  readonly #protocol: Protocol
  readonly #datagram = Buffer.alloc(DATAGRAM_BYTES)
  readonly #dumpAttempts: number
  #open: Open
  #sequence = 0
  /** Whether a dump was requested whose end was not read: the kernel refuses another one on the same socket (EBUSY). */
  #isDumping = false

  /** Opens a socket in the network namespace of the calling thread. */
  constructor(protocol: Protocol, options: { readonly dumpAttempts?: number } = {}) {
    this.#protocol = protocol
    this.#dumpAttempts = options.dumpAttempts ?? limits.netlinkDumpAttempts
    this.#open = openSocket(protocol)
  }

  /** The port with which the kernel marks everything that this socket caused. A dump that was given up changes it. */
  get port(): number {
    return this.#open.port
  }

  /** Returns the only answer to a request. Throws ErrnoError with the kernel's errno. */
  get(request: Request): Message {
    return this.getIfThere(request, []) as Message
  }

  /**
   * Returns the only answer to a request, or undefined if the kernel refuses it with one of these errnos, by which it
   * says that there is no such thing. No error is made then, because that takes longer than the request. Throws like
   * `get`.
   */
  getIfThere(request: Request, absent: readonly number[]): Message | undefined {
    const { answers, isThere } = this.#exchange(request, NLM_F_REQUEST | NLM_F_ACK, absent)
    if (isThere && answers[0] === undefined)
      throw new ErrnoError(`netlink: ${request.what}`, constants.errno.ENOMSG)
    return answers[0]
  }

  /** Returns the answer, or undefined if the kernel only acknowledges the request. Throws like `get`. */
  find(request: Request): Message | undefined {
    return this.#exchange(request, NLM_F_REQUEST | NLM_F_ACK).answers[0]
  }

  /**
   * Returns all answers of a dump; none if the kernel refuses it with one of these errnos. A dump that a change
   * interrupted is repeated, so that the result was true at one time.
   */
  dump(request: Request, absent: readonly number[] = []): readonly Message[] {
    for (let attempt = 0; attempt < this.#dumpAttempts; attempt++) {
      const { answers, overtaken } = this.#exchange(request, NLM_F_REQUEST | NLM_F_DUMP, absent)
      if (!overtaken) return answers
    }
    throw new ErrnoError(`netlink: ${request.what}`, constants.errno.EINTR)
  }

  /**
   * Yields the answers of a dump, those of one datagram at a time. The kernel collects each in a thread, because it may
   * have to read a large table. Other tasks run meanwhile, so the answers may be of different times. The socket must
   * have no other request meanwhile. Throws ErrnoError.
   */
  async *pages(request: Request): AsyncGenerator<readonly Message[]> {
    this.#beginDump()
    await sendRequestInThread(this.#open.fd, this.#encode(request, NLM_F_REQUEST | NLM_F_DUMP), request.what)
    const dump = { isOver: false }
    const next = async (): Promise<readonly Message[]> => {
      // An error ends the dump too.
      dump.isOver = true
      const part = this.#parse(
        await receiveInThread(this.#open.fd, { into: this.#datagram, what: request.what }),
      )
      this.#isDumping = !part.ended
      throwIfFailed(request, part.failure)
      dump.isOver = part.ended
      return part.answers
    }
    try {
      for (;;) {
        yield await next()
        if (dump.isOver) return
      }
    } finally {
      // The kernel refuses another dump before the end of this one.
      while (!dump.isOver) await next()
    }
  }

  /** Sends a request that changes something. Returns when the kernel has done it. */
  change(request: Request): void {
    this.#exchange(request, NLM_F_REQUEST | NLM_F_ACK)
  }

  /**
   * Sends changes that the kernel makes together or not at all, between the requests that begin and end them (batches
   * of linux/netfilter/nfnetlink.h). Throws ErrnoError with the errno of the first refusal.
   */
  changeTogether(begin: Request, changes: readonly Request[], end: Request): void {
    const opening = this.#encode(begin, NLM_F_REQUEST)
    const first = this.#sequence
    const encoded = changes.map((change) => this.#encode(change, NLM_F_REQUEST | NLM_F_ACK))
    const closing = this.#encode(end, NLM_F_REQUEST)
    sendRequest(this.#open.fd, Buffer.concat([opening, ...encoded, closing]), begin.what)
    for (let answered = 0; answered < changes.length;) {
      const datagram = receive(this.#open.fd, { into: this.#datagram, what: begin.what })
      for (const message of decodeMessages(datagram)) {
        // The first that is refused undoes all, so its errno is the answer.
        // The sequence of an earlier request is lower.
        const place = (message.sequence - first) >>> 0
        if (message.type !== NLMSG_ERROR || place > changes.length + 1) continue
        throwIfFailed(changes[place - 1] ?? begin, failureIn(message))
        answered += 1
      }
    }
  }

  close(): void {
    closeNetlink(this.#open.fd)
  }

  /**
   * Sends a request, and collects messages until its acknowledgement or the end of its dump. `isThere` is false if the
   * kernel refused it with one of these errnos. Throws any other.
   */
  #exchange(request: Request, common: number, absent: readonly number[] = []): Exchanged {
    const isDump = (common & NLM_F_DUMP) !== 0
    if (isDump) this.#beginDump()
    sendRequest(this.#open.fd, this.#encode(request, common), request.what)
    const answers: Message[] = []
    let overtaken = false
    for (;;) {
      const part = this.#parse(receive(this.#open.fd, { into: this.#datagram, what: request.what }))
      answers.push(...part.answers)
      overtaken ||= part.overtaken
      if (!part.ended) continue
      if (isDump) this.#isDumping = false
      const { failure } = part
      const isThere = failure === undefined || !absent.includes(failure.errno)
      if (isThere) throwIfFailed(request, failure)
      return { answers, overtaken, isThere }
    }
  }

  /** Opens another socket if an earlier dump has not ended: nothing makes the kernel end it for certain. */
  #beginDump(): void {
    if (this.#isDumping) {
      const { fd } = this.#open
      this.#open = openSocket(this.#protocol)
      closeNetlink(fd)
    }
    this.#isDumping = true
  }

  #encode({ type, flags = 0, body }: Request, common: number): Buffer {
    this.#sequence = (this.#sequence + 1) >>> 0
    return encodeMessage({ type, flags: common | flags, sequence: this.#sequence, body })
  }

  /** Returns the answers in a datagram. */
  #parse(datagram: Buffer): Part {
    const answers: Message[] = []
    let overtaken = false
    for (const message of decodeMessages(datagram)) {
      // It belongs to an earlier request that was given up.
      if (message.sequence !== this.#sequence) continue
      overtaken ||= (message.flags & NLM_F_DUMP_INTR) !== 0
      if (message.type === NLMSG_DONE || message.type === NLMSG_ERROR) {
        return { answers, overtaken, ended: true, failure: failureIn(message) }
      }
      // A copy, because the next datagram overwrites this one.
      answers.push({ ...message, body: Buffer.from(message.body) })
    }
    return { answers, overtaken, ended: false, failure: undefined }
  }
}

/** Why the kernel refused a request. */
type Failure = { readonly errno: number; readonly words: string | undefined }

/** The answers to a request in one datagram. `overtaken`: a change interrupted the dump. */
type Part = {
  readonly answers: readonly Message[]
  readonly overtaken: boolean
  readonly ended: boolean
  readonly failure: Failure | undefined
}

type Exchanged = Pick<Part, 'answers' | 'overtaken'> & { readonly isThere: boolean }

/**
 * Returns the error in an acknowledgement or the end of a dump: a negated errno, and possibly a text (extended ack).
 */
function failureIn({ type, flags, body }: Message): Failure | undefined {
  const failed = body.length >= 4 ? -body.readInt32LE(0) : 0
  if (failed === 0) return undefined
  let words: Buffer | undefined
  if ((flags & NLM_F_ACK_TLVS) !== 0) {
    // An error repeats the request before the attributes, or only its header with NLM_F_CAPPED.
    const echoed =
      type === NLMSG_DONE ? 0 : (flags & NLM_F_CAPPED) === 0 ? body.readUInt32LE(4) : REQUEST_HEADER_BYTES
    words = decodeAttributes(body.subarray(4 + ((echoed + 3) & ~3))).get(NLMSGERR_ATTR_MSG)
  }
  return { errno: failed, words: words === undefined ? undefined : decodeString(words) }
}

function throwIfFailed({ what }: Request, failure: Failure | undefined): void {
  if (failure !== undefined) throw new ErrnoError(`netlink: ${what}`, failure.errno, failure.words)
}
