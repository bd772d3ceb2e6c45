import { Agent, request as httpsRequest } from 'node:https'
import { createSecureContext } from 'node:tls'
import { limits } from '../config/limits.ts'
import { UnexpectedAnswer } from './api-problem.ts'
import { ConnectionFailed, connectionFailed } from './connection-failed.ts'
import type { IncomingMessage } from 'node:http'
import type { Connection } from './connection.ts'

/**
 * `fetch` with a client certificate, over node:https: the built-in one takes certificates only through a separate
 * package. Keeps connections for the next request; one that must not be repeated has a connection of its own. Rejects
 * with {@link ConnectionFailed}, and with {@link UnexpectedAnswer} if an answer has more than `clientAnswerBytesMax`.
 */
export type HttpsFetch = {
  (request: Request): Promise<Response>
  /** Closes the kept connections; requests under way fail. */
  close(): void
}

/** Throws node:tls's error if certificate and key do not match or are not PEM. */
export function createHttpsFetch({ ca, cert, key }: Omit<Connection, 'url'>): HttpsFetch {
  const secureContext = createSecureContext({ ca, cert, key, minVersion: 'TLSv1.3' })
  const agent = new Agent({ keepAlive: true, secureContext })
  const single = new Agent({ keepAlive: false, secureContext })
  const fetch = async (request: Request): Promise<Response> => {
    const body = Buffer.from(await request.arrayBuffer())
    if (isForOnce(request)) return send(single, request, body)
    for (;;) {
      try {
        return await send(agent, request, body)
      } catch (error) {
        // The daemon closed a kept connection just as we used it, and perhaps others. If it has taken this request, the
        // repeat changes nothing more and succeeds too.
        if (!(error instanceof StaleConnection)) throw error
      }
    }
  }
  return Object.assign(fetch, { close: () => [agent, single].forEach((one) => one.destroy()) })
}

/**
 * Whether a repeat of a request that is done has another outcome: a reboot or a rebuild begins again, and `If-Match`
 * refuses the repeat for the change that the request itself made. On a kept connection,
 * no error shows whether it arrived.
 */
const isForOnce = ({ method, url, headers }: Request): boolean =>
  headers.has('if-match') || (method === 'POST' && /\/(?:reboot|rebuild)$/.test(new URL(url).pathname))

class StaleConnection extends Error {
  override readonly name = 'StaleConnection'
}

async function send(
  agent: Agent,
  { method, url, headers, signal }: Request,
  body: Buffer,
): Promise<Response> {
  const { promise, resolve, reject } = Promise.withResolvers<Response>()
  const bound = AbortSignal.timeout(limits.clientAnswerMs + preferredWaitMs(headers))
  const sent = httpsRequest(url, {
    agent,
    method,
    headers: {
      ...Object.fromEntries(headers),
      ...(body.length === 0 ? {} : { 'content-length': body.length }),
    },
    signal: AbortSignal.any([signal, bound]),
  })
  const { host: peer } = new URL(url)
  let secure = false
  sent.on('socket', (socket) => {
    // A kept connection never makes a second handshake: listeners for that would pile up on it.
    if (!sent.reusedSocket) socket.once('secureConnect', () => (secure = true))
  })
  const fail = (error: unknown, answered: boolean): void => {
    if (signal.aborted) reject(signal.reason)
    else if (error instanceof UnexpectedAnswer) reject(error)
    else if (bound.aborted) reject(new ConnectionFailed('late', `${peer} did not answer in time`))
    else if (sent.reusedSocket && !answered) reject(new StaleConnection(peer, { cause: error }))
    else reject(connectionFailed(error, { peer, silentAfterHandshake: secure && !answered }))
  }
  sent.on('error', (error) => fail(error, false))
  sent.on('response', (response) => {
    collect(response, resolve, (error) => fail(error, true))
  })
  sent.end(body)
  return promise
}

/** Returns the milliseconds that `Prefer: wait` (RFC 7240, 4.3) lets the server take. */
const preferredWaitMs = (headers: Headers): number =>
  Number(/\bwait=(\d+)/.exec(headers.get('prefer') ?? '')?.[1] ?? 0) * 1000

function collect(
  response: IncomingMessage,
  resolve: (answer: Response) => void,
  reject: (error: unknown) => void,
): void {
  const chunks: Buffer[] = []
  const { statusCode: status = 0, headers } = response
  let length = 0
  response.on('error', reject)
  response.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    length += chunk.length
    if (length > limits.clientAnswerBytesMax) response.destroy(new UnexpectedAnswer(status))
  })
  response.on('end', () => {
    const pairs = Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, [value].flat().join(', ')] as [string, string]],
    )
    // The standard Response refuses a body, even an empty one, for statuses that have none.
    const body = chunks.length === 0 ? null : Buffer.concat(chunks)
    try {
      resolve(new Response(body, { status, headers: pairs }))
    } catch {
      // It also refuses a status outside 200 to 599, which another server may send.
      reject(new UnexpectedAnswer(status))
    }
  })
}
