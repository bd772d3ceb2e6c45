import { Agent as HttpAgent, request as requestHttp } from 'node:http'
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { createSecureContext, getCACertificates } from 'node:tls'
import { limits } from '../../config/limits.ts'
import { checkRedirect, checkUrl } from '../../core/object-store/outbound-policy.ts'
import type { OutboundPolicy } from '../../core/object-store/outbound-policy.ts'
import type { Result } from '../../lib/result.ts'
import { OutboundAddresses } from './outbound-addresses.ts'
import type { Resolve } from './outbound-addresses.ts'
import { OutboundFailure, codeOf, unanswered } from './outbound-failure.ts'

export type OutboundOptions = {
  readonly policy: OutboundPolicy
  /** Whether a VM on this host has the address. */
  readonly isGuest?: (address: string) => boolean
  /** Those that this host has now; of its interfaces where absent. */
  readonly ownAddresses?: () => readonly string[]
  /** Certificate authorities to trust besides the usual ones, PEM. */
  readonly extraCa?: readonly string[]
  /** Node's own, getaddrinfo(3), where absent. */
  readonly resolve?: Resolve
}

export type OutboundRequest = {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST'
  /** Secret where it is signed. */
  readonly url: URL
  readonly headers?: Readonly<Record<string, string | number>>
  /**
   * Sends the body and ends the request, once for each place that we are sent to. Stops where `stop` aborts, since an answer
   * came or nobody waits for one any more, and where the connection breaks; what it throws ends the request.
   */
  readonly write?: (request: ClientRequest, stop: AbortSignal) => Promise<void>
  /** Ends the request and the reading of its answer, with the signal's reason. */
  readonly signal: AbortSignal
}

export type OutboundAnswer = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The name of the host that answered, after redirects. */
  readonly host: string
  /** The body, as it comes. Each chunk is good for ever. Throws OutboundFailure where it breaks off. */
  readonly chunks: AsyncIterable<Uint8Array>
  /** Lets go of the connection, which is kept where the answer was read to its end. To be called in any case. */
  close(): Promise<void>
}

/**
 * HTTP to where a controller says, and no further than the policy of this host lets it. The one way out: nothing else in the
 * daemon opens a URL. Takes no proxy from the environment.
 */
export class Outbound {
  readonly #policy: OutboundPolicy
  readonly #addresses: OutboundAddresses
  readonly #agents: { readonly kept: Agents; readonly fresh: Agents }

  constructor({ extraCa, ...options }: OutboundOptions) {
    this.#policy = options.policy
    this.#addresses = new OutboundAddresses(options)
    const trust =
      extraCa === undefined
        ? {}
        : // Once, and not for each connection: the usual authorities are some hundred and fifty certificates.
          { secureContext: createSecureContext({ ca: [...getCACertificates('default'), ...extraCa] }) }
    this.#agents = { kept: agentsOf({ ...trust, ...KEPT }), fresh: agentsOf(trust) }
  }

  /** Asks, and follows redirects. Throws OutboundFailure, the signal's reason, and what `write` throws. */
  async ask(request: OutboundRequest): Promise<OutboundAnswer> {
    let url = allowed(checkUrl(request.url.href, this.#policy), 'its URL')
    for (let redirects = 0; ; redirects++) {
      const exchange = await this.#exchange(request, url)
      const location = redirectOf(exchange.response, request)
      if (location === undefined) return answerOf(exchange, url, request.signal)
      await exchange.close()
      if (redirects === limits.imageRedirectsMax) {
        throw new OutboundFailure('unreachable', `it redirects more than ${redirects} times`)
      }
      url = allowed(checkRedirect(url, location, this.#policy), 'it')
    }
  }

  /** Ends all connections. */
  close(): void {
    for (const { http, https } of Object.values(this.#agents)) {
      http.destroy()
      https.destroy()
    }
  }

  async #exchange(request: OutboundRequest, url: URL): Promise<Exchange> {
    // What a kept connection did not answer may have been done, and a POST is not the same done twice (RFC 9110, 9.2.2).
    if (request.method === 'POST')
      return exchangeOver(this.#open(request, url, this.#agents.fresh), request, url.host)
    const first = this.#open(request, url, this.#agents.kept)
    try {
      return await exchangeOver(first, request, url.host)
    } catch (error) {
      // The other end may have closed a kept connection before it saw this request (RFC 9112, 9.3.1).
      const isStale = first.reusedSocket && error instanceof OutboundFailure && error.kind === 'unreachable'
      if (!isStale || request.signal.aborted) throw error
      return exchangeOver(this.#open(request, url, this.#agents.fresh), request, url.host)
    }
  }

  #open({ method, headers }: OutboundRequest, url: URL, { http, https }: Agents): ClientRequest {
    this.#addresses.checkLiteral(url)
    const options = {
      method,
      lookup: this.#addresses.lookup,
      // What is hashed is what is sent; whoever compresses on the way would change it.
      headers: { 'accept-encoding': 'identity', 'user-agent': 'vmhostd', ...headers },
    }
    try {
      const opened =
        url.protocol === 'https:'
          ? requestHttps(url, { ...options, agent: https })
          : requestHttp(url, { ...options, agent: http })
      return opened.once('socket', (socket) => this.#addresses.guard(socket))
    } catch {
      // A user name in the URL that cannot be decoded, for one.
      throw new OutboundFailure('not_allowed', 'its URL cannot be used')
    }
  }
}

type Agents = { readonly http: HttpAgent; readonly https: HttpsAgent }

const KEPT = { keepAlive: true, timeout: limits.outboundIdleMs, maxFreeSockets: limits.outboundIdleMax }

const agentsOf = (options: ConstructorParameters<typeof HttpsAgent>[0]): Agents => ({
  http: new HttpAgent(options),
  https: new HttpsAgent(options),
})

type Exchange = { readonly response: IncomingMessage; readonly close: () => Promise<void> }

/** Sends the request and its body, and waits for the head of the answer, which may come before all of the body went out. */
async function exchangeOver(
  sent: ClientRequest,
  { write, signal }: OutboundRequest,
  host: string,
): Promise<Exchange> {
  const { promise: answered, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const stop = new AbortController()
  const onAbort = (): void => {
    reject(signal.reason)
    stop.abort()
    sent.destroy()
  }
  sent.on('response', resolve)
  sent.on('error', (error) => reject(error instanceof OutboundFailure ? error : unanswered(error, host)))
  sent.on('close', () => reject(unanswered(undefined, host)))
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  const writing = write === undefined ? Promise.resolve(void sent.end()) : write(sent, stop.signal)
  const close = async (): Promise<void> => {
    signal.removeEventListener('abort', onAbort)
    stop.abort()
    // Does nothing to a connection whose answer was read to its end: that is back among the kept ones.
    sent.destroy()
    await writing.catch(() => undefined)
  }
  try {
    const response = await Promise.race([answered, writing.then(() => answered)])
    // It may break off while nobody reads it; whoever reads it is told.
    response.on('error', () => undefined)
    stop.abort()
    return { response, close }
  } catch (error) {
    await close()
    throw error
  }
}

function answerOf({ response, close }: Exchange, url: URL, signal: AbortSignal): OutboundAnswer {
  const { statusCode: status = 0, headers } = response
  return { status, headers, host: url.hostname, chunks: chunksOf(response, signal), close }
}

async function* chunksOf(response: IncomingMessage, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    yield* response
  } catch (error) {
    throw signal.aborted
      ? signal.reason
      : new OutboundFailure('unreachable', `the body broke off (${codeOf(error)})`)
  }
}

/** Where the answer sends us to. What has a body is sent there only where that asks for the same again (RFC 9110, 15.4). */
function redirectOf({ statusCode = 0, headers }: IncomingMessage, { write }: OutboundRequest) {
  const followed = write === undefined ? [301, 302, 303, 307, 308] : [307, 308]
  return followed.includes(statusCode) ? headers.location : undefined
}

function allowed(checked: Result<URL, string>, subject: string): URL {
  if (checked.ok) return checked.value
  throw new OutboundFailure('not_allowed', `${subject} ${checked.error}`)
}
