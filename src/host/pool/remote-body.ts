import { request as requestHttp } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { request as requestHttps } from 'node:https'
import { HostFault } from '../../core/errors.ts'
import { checkRedirect } from '../../core/storage/check-source.ts'
import type { SourcePolicy } from '../../core/storage/check-source.ts'
import type { ImageBody } from './image-body.ts'

export type RemoteRequest = {
  readonly url: URL
  readonly policy: SourcePolicy
  readonly redirectsMax: number
  /** Certificate authorities to trust, PEM; Node's own list where absent. */
  readonly ca?: readonly string[]
  /** Aborts the request and the reading of its body. */
  readonly signal: AbortSignal
}

/**
 * Opens an image over HTTP. Nothing that it throws has more of the URL than the host's name: Node's errors are told by
 * their code alone, since their messages and properties are not ours to vouch for.
 */
export async function openRemote(request: RemoteRequest): Promise<ImageBody> {
  const { policy, redirectsMax, signal } = request
  let { url } = request
  for (let redirects = 0; ; redirects++) {
    const doing = `asking ${url.hostname}`
    const response = await send(request, url, doing)
    const { location } = response.headers
    if (!isRedirect(response.statusCode) || location === undefined) return bodyOf(response, doing, signal)
    response.destroy()
    if (redirects === redirectsMax) throw unavailable(doing, `it redirects more than ${redirectsMax} times`)
    const target = checkRedirect(url, location, policy)
    if (!target.ok) throw new HostFault('image_source_refused', doing, { cause: new Error(target.error) })
    url = target.value
  }
}

const isRedirect = (status: number | undefined): boolean => [301, 302, 303, 307, 308].includes(status ?? 0)

function send({ ca, signal }: RemoteRequest, url: URL, doing: string): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const request = url.protocol === 'https:' ? requestHttps : requestHttp
  const options = {
    signal,
    agent: false,
    // What is hashed is what is sent; whoever compresses on the way would change it.
    headers: { 'accept-encoding': 'identity', 'user-agent': 'vmhostd' },
    ...(ca === undefined ? {} : { ca: [...ca] }),
  }
  try {
    const sent = request(url, options, resolve)
    sent.on('error', (error) => reject(signal.aborted ? signal.reason : unavailable(doing, codeOf(error))))
    sent.end()
  } catch {
    // A user name in the URL that cannot be decoded, for one.
    reject(new HostFault('image_source_refused', doing, { cause: new Error('its URL cannot be used') }))
  }
  return promise
}

function bodyOf(response: IncomingMessage, doing: string, signal: AbortSignal): ImageBody {
  const { statusCode, headers } = response
  const encoding = headers['content-encoding'] ?? 'identity'
  const refusal =
    statusCode !== 200
      ? `it answered ${statusCode}`
      : encoding !== 'identity'
        ? 'it encoded the body, although asked not to'
        : undefined
  if (refusal !== undefined) {
    response.destroy()
    throw unavailable(doing, refusal)
  }
  const length = headers['content-length']
  return {
    bytes: length === undefined ? undefined : Number(length),
    chunks: chunksOf(response, doing, signal),
    close: () => void response.destroy(),
  }
}

async function* chunksOf(
  response: IncomingMessage,
  doing: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  try {
    yield* response
  } catch (error) {
    throw signal.aborted ? signal.reason : unavailable(doing, `the body broke off: ${codeOf(error)}`)
  }
}

const unavailable = (doing: string, why: string): HostFault =>
  new HostFault('image_unavailable', doing, { cause: new Error(why) })

/** E.g. ECONNREFUSED, ENOTFOUND, CERT_HAS_EXPIRED; an `AggregateError` of many addresses has the first one's. */
const codeOf = (error: unknown): string => {
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' ? code : 'it failed'
}
