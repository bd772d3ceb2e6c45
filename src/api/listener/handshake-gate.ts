import { limits } from '../../config/limits.ts'
import { parseAddress } from '../../core/network/address.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'
import type { Socket } from 'node:net'
import type { Log } from '../../log/log.ts'
import type { PeerCertificate } from './peer-chain.ts'

type Peer = {
  /** Connections that have not finished their handshake. */
  pending: number
  /** Each handshake takes one token when it begins and returns it when it succeeds. */
  readonly credit: TokenBucket
}

type Address = Pick<Socket, 'remoteAddress' | 'remotePort'>

/** The members of an accepted connection that the gate uses. */
export type HandshakeSocket = Address & {
  once(event: 'close', listener: () => void): unknown
  destroy(): unknown
}

/**
 * Bounds the cost of peers that have not shown a valid certificate. It bounds connections with an unfinished handshake,
 * per peer and in total, and failed handshakes per peer, each of which costs the event loop a signature. A peer is an
 * IPv4 address, or an IPv6 network of 64 bits, because one host can choose any address in it. Admitted connections are
 * not counted.
 */
export class HandshakeGate {
  readonly #peers = new Map<string, Peer>()
  /** Oldest first. */
  readonly #pending = new Map<string, { readonly socket: HandshakeSocket; readonly peer: Peer }>()

  readonly #now: () => number

  /** @param now milliseconds of a monotonic clock */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Returns whether a connection may begin its handshake; the caller closes one that may not. */
  admit(socket: HandshakeSocket): boolean {
    const nowMs = this.#now()
    const peer = this.#peer(peerOf(socket.remoteAddress ?? ''), nowMs)
    if (peer.pending >= limits.handshakesPerPeerMax || !peer.credit.take(nowMs)) return false
    // A handshake takes milliseconds, so the oldest one is the least likely to be the controller's.
    if (this.#pending.size >= limits.handshakesMax) this.#oldest()?.destroy()
    peer.pending += 1
    const key = keyOf(socket)
    // A peer that reset its connection may come from the same port before the close of the old one is known here.
    this.#over(key, undefined, true)
    this.#pending.set(key, { socket, peer })
    socket.once('close', () => this.#over(key, socket, true))
    return true
  }

  /** Notes that a connection finished its handshake with a valid certificate. */
  letIn(socket: Address): void {
    this.#over(keyOf(socket), undefined, false)
  }

  /** Closes all connections with an unfinished handshake. */
  endAll(): void {
    for (const { socket } of this.#pending.values()) socket.destroy()
  }

  #over(key: string, socket: HandshakeSocket | undefined, failed: boolean): void {
    const entry = this.#pending.get(key)
    if (entry === undefined || (socket !== undefined && entry.socket !== socket)) return
    this.#pending.delete(key)
    entry.peer.pending -= 1
    if (!failed) entry.peer.credit.spend(this.#now(), -1)
  }

  #oldest(): HandshakeSocket | undefined {
    const [oldest] = this.#pending.values()
    if (oldest !== undefined) this.#over(keyOf(oldest.socket), oldest.socket, true)
    return oldest?.socket
  }

  #peer(name: string, nowMs: number): Peer {
    const known = this.#peers.get(name)
    // The peer that was seen longest ago is dropped first.
    if (known !== undefined) this.#peers.delete(name)
    const { handshakeFailuresPerSecond: perSecond, handshakesPerPeerMax: burst } = limits
    const peer = known ?? { pending: 0, credit: new TokenBucket({ perSecond, burst, nowMs }) }
    this.#peers.set(name, peer)
    if (this.#peers.size > limits.handshakePeersMax) this.#forgetOne()
    return peer
  }

  #forgetOne(): void {
    for (const [name, { pending }] of this.#peers) {
      if (pending > 0) continue
      this.#peers.delete(name)
      return
    }
  }
}

const keyOf = ({ remoteAddress, remotePort }: Address): string => `${remoteAddress} ${remotePort}`

const IPV6_NETWORK_BYTES = 8
/** The prefix of an IPv4-mapped address (RFC 4291, 2.5.5.2), which a listener on `::` sees for IPv4. */
const MAPPED = /^::ffff:(?=\d+\.)/i

/** Returns the peer that a connection is counted for. */
export function peerOf(remoteAddress: string): string {
  const address = remoteAddress.replace(MAPPED, '').replace(/%.*$/, '')
  const bytes = parseAddress(address)
  if (bytes === undefined || bytes.length <= IPV6_NETWORK_BYTES) return address
  return Buffer.from(bytes.subarray(0, IPV6_NETWORK_BYTES)).toString('hex')
}

type RefusedHandshake = {
  /** Absent if the connection is already gone. */
  readonly peer: string | undefined
  /** A code of OpenSSL, Node or our own. */
  readonly reason: string
  /**
   * The certificate that was refused, if an authority that is trusted here has signed it.
   * Otherwise its names are anyone's.
   */
  readonly certificate?: PeerCertificate
}

type Sample = { count: number; refusal: RefusedHandshake; timer: NodeJS.Timeout }

/**
 * Logs connections that end before or in their TLS handshake. The first of each reason, and of each certificate that is
 * known, is logged at once; those that follow within `limits.handshakeLogMs` are logged in one line with their number.
 * Any peer can cause them: one line each would fill the journal and use up its rate limit.
 */
export class RefusedHandshakes {
  readonly #log: Log
  readonly #everyMs: number
  readonly #samples = new Map<string, Sample>()

  constructor(log: Log, everyMs: number = limits.handshakeLogMs) {
    this.#log = log
    this.#everyMs = everyMs
  }

  note(refusal: RefusedHandshake): void {
    const own = [refusal.reason, refusal.certificate?.certificate_serial].join(' ')
    const key = this.#samples.has(own) || this.#samples.size < REASONS_MAX ? own : 'other'
    const sample = this.#samples.get(key)
    if (sample === undefined) {
      this.#notify(1, refusal)
      const timer = setTimeout(() => this.#end(key), this.#everyMs).unref()
      this.#samples.set(key, { count: 0, refusal, timer })
      return
    }
    sample.count += 1
    sample.refusal = key === 'other' ? { peer: refusal.peer, reason: key } : refusal
  }

  #end(key: string): void {
    const sample = this.#samples.get(key)
    this.#samples.delete(key)
    if (sample !== undefined && sample.count > 0) this.#notify(sample.count, sample.refusal)
  }

  #notify(count: number, { peer, reason, certificate }: RefusedHandshake): void {
    this.#log.info({ peer, reason, ...certificate, count }, 'connections refused in their TLS handshake')
  }
}

/** Number of reasons and certificates that are counted separately at a time. */
const REASONS_MAX = 16
