import { Agent as HttpAgent, request as requestHttp } from 'node:http'
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import type { Socket } from 'node:net'
import { createSecureContext, getCACertificates, TLSSocket } from 'node:tls'
import type { SecureContext } from 'node:tls'
import { limits } from '../../config/limits.ts'
import { checkRedirect, checkUrl } from '../../core/outbound/outbound-policy.ts'
import type { OutboundPolicy } from '../../core/outbound/outbound-policy.ts'
import type { Result } from '../../lib/result.ts'
import { OutboundAddresses } from './outbound-addresses.ts'
import type { Resolve } from './outbound-addresses.ts'
import { OutboundFailure, codeOf, revoked, unanswered } from './outbound-failure.ts'
import type { Role } from './outbound-failure.ts'
import { PieceBudget } from './piece-budget.ts'
import type { PieceTime } from './piece-budget.ts'

export type OutboundOptions = {
  readonly policy: OutboundPolicy
  /** Whether a VM on this host has the address. */
  readonly isGuest?: (address: string) => boolean
  /** Returns the addresses that this host has now; absent: those of its interfaces. */
  readonly ownAddresses?: () => readonly string[]
  /** Certificate authorities to trust besides those of the system, PEM. */
  readonly extraCa?: readonly string[]
  /** Makes this host a node among hosts, with mutual TLS 1.3; absent: an anonymous client. */
  readonly identity?: NodeIdentity
  /** Returns whether the certificate of a node, or an authority above it, is revoked. Asked before each request. */
  readonly isRevoked?: (socket: TLSSocket) => boolean
  /** Time in which a connection must be ready for a request; absent: the time that the system gives it. */
  readonly connectMs?: number
  /** Resolves names; absent: Node's own, getaddrinfo(3). */
  readonly resolve?: Resolve
  /** The time by which small pieces of a body are slowed; absent: that of the system. */
  readonly pieceTime?: PieceTime
}

/** The node certificate of this host with its key, and the only authorities to trust. PEM. */
export type NodeIdentity = { readonly ca: Buffer; readonly cert: Buffer; readonly key: Buffer }

export type OutboundRequest = {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST'
  /** Whether a POST is safe to repeat, so that it may use a kept connection. */
  readonly isRepeatable?: boolean
  /** Whether a redirect is an answer like any other, and is not followed. */
  readonly keepsRedirects?: boolean
  /** The URL, which is secret if it is signed. */
  readonly url: URL
  readonly headers?: Readonly<Record<string, string | number>>
  /**
   * Sends the body and ends the request, once for each redirect target. Stops when `stop` aborts, because an answer
   * came or is no longer needed, and when the connection breaks. An error that it throws ends the request.
   */
  readonly write?: (request: ClientRequest, stop: AbortSignal) => Promise<void>
  /** Aborts the request, and the reading of its answer, with the signal's reason. */
  readonly signal: AbortSignal
}

export type OutboundAnswer = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The chunks of the body as they arrive. A chunk stays valid. Throws OutboundFailure if the body breaks off. */
  readonly chunks: AsyncIterable<Uint8Array>
  /** Releases the connection, which is kept if the answer was read to its end. Must always be called. */
  close(): Promise<void>
}

/**
 * Sends HTTP requests to the URLs that a controller gives, within the policy of this host. Nothing else in the daemon
 * opens a URL. It uses no proxy from the environment.
 */
export class Outbound {
  readonly #policy: OutboundPolicy
  readonly #addresses: OutboundAddresses
  readonly #connectMs: number | undefined
  readonly #role: Role
  readonly #pieceTime: PieceTime | undefined
  readonly #isRevoked: OutboundOptions['isRevoked']
  readonly #trust: SecureContext | undefined
  #agents: { readonly kept: Agents; readonly fresh: Agents } | undefined

  /** Throws node:tls's error if a certificate is not PEM, or does not fit its key. */
  constructor(options: OutboundOptions) {
    this.#policy = options.policy
    this.#addresses = new OutboundAddresses(options)
    this.#connectMs = options.connectMs
    this.#role = options.identity === undefined ? 'client' : 'node'
    this.#pieceTime = options.pieceTime
    this.#trust = trustOf(options)
    this.#isRevoked = options.isRevoked
  }

  /** Sends a request, and follows redirects. Throws OutboundFailure, the signal's reason, and what `write` throws. */
  async ask(request: OutboundRequest): Promise<OutboundAnswer> {
    let url = allowed(checkUrl(request.url.href, this.#policy), 'its URL')
    for (let redirects = 0; ; redirects++) {
      const exchange = await this.#exchange(request, url)
      const location = request.keepsRedirects === true ? undefined : redirectOf(exchange.response, request)
      if (location === undefined) return answerOf(exchange, request.signal)
      await exchange.close()
      if (redirects === limits.imageRedirectsMax) {
        throw new OutboundFailure('unreachable', `it redirects more than ${redirects} times`)
      }
      url = allowed(checkRedirect(url, location, this.#policy), 'it')
    }
  }

  /** Ends all connections. */
  close(): void {
    for (const { http, https } of Object.values(this.#agents ?? {})) {
      http.destroy()
      https.destroy()
    }
  }

  async #exchange(request: OutboundRequest, url: URL): Promise<Exchange> {
    const peer = { host: url.host, role: this.#role, pieceTime: this.#pieceTime }
    const { kept, fresh } = this.#connections()
    // If a kept connection gave no answer, the request may still have been processed, and a POST must not be repeated
    // (RFC 9110, 9.2.2).
    if (request.method === 'POST' && request.isRepeatable !== true)
      return exchangeOver(this.#open(request, url, fresh), request, peer)
    const first = this.#open(request, url, kept)
    try {
      return await exchangeOver(first, request, peer)
    } catch (error) {
      // The other end may have closed a kept connection before it saw this request (RFC 9112, 9.3.1).
      const isStale = first.reusedSocket && error instanceof OutboundFailure && error.kind === 'unreachable'
      if (!isStale || request.signal.aborted) throw error
      return exchangeOver(this.#open(request, url, fresh), request, peer)
    }
  }

  /**
   * Makes the agents at the first request: to read the authorities of a system, some 150, takes tens of milliseconds.
   */
  #connections(): { readonly kept: Agents; readonly fresh: Agents } {
    if (this.#agents !== undefined) return this.#agents
    const secureContext = this.#trust ?? createSecureContext({ ca: systemAuthorities() })
    const secure = { secureContext, ...(this.#isRevoked === undefined ? {} : UNRESUMED) }
    this.#agents = { kept: agentsOf({ ...secure, ...KEPT }), fresh: agentsOf(secure) }
    return this.#agents
  }

  #checkLiteral(url: URL): void {
    try {
      this.#addresses.checkLiteral(url)
    } catch (error) {
      throw error instanceof OutboundFailure ? error : unanswered(error, url.host, this.#role)
    }
  }

  #open({ method, headers }: OutboundRequest, url: URL, { http, https }: Agents): ClientRequest {
    this.#checkLiteral(url)
    const options = {
      method,
      lookup: this.#addresses.lookup,
      // The hash is of the bytes as sent. A proxy that compresses would change them.
      headers: { 'accept-encoding': 'identity', 'user-agent': 'vmhostd', ...headers },
    }
    try {
      const opened =
        url.protocol === 'https:'
          ? requestHttps(url, { ...options, agent: https })
          : requestHttp(url, { ...options, agent: http })
      return opened.once('socket', (socket) => {
        this.#addresses.guard(socket)
        if (this.#connectMs !== undefined && !opened.reusedSocket) boundConnecting(socket, this.#connectMs)
        if (this.#isRevoked !== undefined && socket instanceof TLSSocket)
          refuseRevoked(socket, { isRevoked: this.#isRevoked, host: url.host, isReady: opened.reusedSocket })
      })
    } catch {
      // One reason is a user name in the URL that cannot be decoded.
      throw new OutboundFailure('not_allowed', 'its URL cannot be used')
    }
  }
}

/** Ends a connection that is not ready for a request in time, also if only its handshake is missing. */
function boundConnecting(socket: Socket, ms: number): void {
  const late = (): void => {
    socket.destroy(new OutboundFailure('unreachable', `no connection was made in ${ms / 1000} s`))
  }
  const timer = setTimeout(late, ms)
  const event = socket instanceof TLSSocket ? 'secureConnect' : 'connect'
  for (const end of [event, 'close']) socket.once(end, () => clearTimeout(timer))
}

/** Ends a connection to a revoked peer before the request goes out: after its handshake, or now if it is a kept one. */
function refuseRevoked(
  socket: TLSSocket,
  peer: {
    readonly isRevoked: (socket: TLSSocket) => boolean
    readonly host: string
    readonly isReady: boolean
  },
): void {
  const judge = (): void => {
    if (peer.isRevoked(socket)) socket.destroy(revoked(peer.host))
  }
  if (peer.isReady) judge()
  else socket.once('secureConnect', judge)
}

/** Returns what the options say about trust; undefined if the system alone decides. */
function trustOf({ extraCa, identity }: OutboundOptions): SecureContext | undefined {
  if (identity !== undefined) return createSecureContext({ ...identity, minVersion: 'TLSv1.3' })
  return extraCa && createSecureContext({ ca: [...systemAuthorities(), ...extraCa] })
}

/** Returns the authorities of the system, which Node reads once; without any (no ca-certificates), those of Node. */
function systemAuthorities(): string[] {
  const system = new Set(getCACertificates('system'))
  return system.size > 0 ? [...system] : getCACertificates('bundled')
}

type Agents = { readonly http: HttpAgent; readonly https: HttpsAgent }

const KEPT = { keepAlive: true, timeout: limits.outboundIdleMs, maxFreeSockets: limits.outboundIdleMax }

/** A resumed session shows no certificate of the peer, so nothing could be judged. */
const UNRESUMED = { maxCachedSessions: 0 }

const agentsOf = (options: ConstructorParameters<typeof HttpsAgent>[0]): Agents => ({
  http: new HttpAgent(options),
  https: new HttpsAgent(options),
})

type Exchange = {
  readonly response: IncomingMessage
  readonly pieces: PieceBudget
  readonly close: () => Promise<void>
}

type Peer = { readonly host: string; readonly role: Role; readonly pieceTime: PieceTime | undefined }

/**
 * Sends the request and its body, and waits for the head of the answer, which may come before the whole body was sent.
 */
async function exchangeOver(
  sent: ClientRequest,
  { write, signal }: OutboundRequest,
  { host, role, pieceTime }: Peer,
): Promise<Exchange> {
  const {
    promise: answered,
    resolve,
    reject,
  } = Promise.withResolvers<Pick<Exchange, 'response' | 'pieces'>>()
  const stop = new AbortController()
  const onAbort = (): void => {
    reject(signal.reason)
    stop.abort()
    sent.destroy()
  }
  sent.on('response', (response) => resolve({ response, pieces: new PieceBudget(response, pieceTime) }))
  boundInformation(sent)
  sent.on('error', (error) =>
    reject(error instanceof OutboundFailure ? error : unanswered(error, host, role)),
  )
  sent.on('close', () => reject(unanswered(undefined, host, role)))
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  const writing = write === undefined ? Promise.resolve(void sent.end()) : write(sent, stop.signal)
  const close = async (): Promise<void> => {
    signal.removeEventListener('abort', onAbort)
    stop.abort()
    // Does nothing to a connection whose answer was read to its end, because it is already back among the kept ones.
    sent.destroy()
    await writing.catch(() => undefined)
  }
  try {
    const { response, pieces } = await Promise.race([answered, writing.then(() => answered)])
    // The body may break off while it is not being read. Its reader gets the error.
    response.on('error', () => undefined)
    stop.abort()
    return { response, pieces, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Ends a request whose answer does not come after so many informational ones (RFC 9110, 15.2). */
function boundInformation(sent: ClientRequest): void {
  let count = 0
  sent.on('information', () => {
    count += 1
    if (count > limits.outboundInformationMax)
      sent.destroy(new OutboundFailure('unreachable', `it sent ${count} informational answers and no other`))
  })
}

function answerOf(exchange: Exchange, signal: AbortSignal): OutboundAnswer {
  const { response, close } = exchange
  const { statusCode: status = 0, headers } = response
  return { status, headers, chunks: chunksOf(exchange, signal), close }
}

async function* chunksOf({ response, pieces }: Exchange, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of response) {
      await pieces.pay(signal)
      yield chunk
    }
  } catch (error) {
    // A body that breaks off is often asked for again: its last pieces count too.
    if (!signal.aborted) await pieces.pay(signal).catch(() => undefined)
    throw signal.aborted
      ? signal.reason
      : new OutboundFailure('unreachable', `the body broke off (${codeOf(error)})`)
  }
}

/**
 * Returns the target of a redirect. A request with a body follows only redirects that ask for the same request again
 * (RFC 9110, 15.4).
 */
function redirectOf({ statusCode = 0, headers }: IncomingMessage, { write }: OutboundRequest) {
  const followed = write === undefined ? [301, 302, 303, 307, 308] : [307, 308]
  return followed.includes(statusCode) ? headers.location : undefined
}

function allowed(checked: Result<URL, string>, subject: string): URL {
  if (checked.ok) return checked.value
  throw new OutboundFailure('not_allowed', `${subject} ${checked.error}`)
}
