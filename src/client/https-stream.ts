import { request as httpsRequest } from 'node:https'
import { limits } from '../config/limits.ts'
import { parsedJson } from '../lib/parsed-values.ts'
import { ApiProblem, isProblem, UnexpectedAnswer } from './api-problem.ts'
import { daemonUrl } from './connection.ts'
import { ConnectionFailed, connectionFailed } from './connection-failed.ts'
import type { IncomingMessage } from 'node:http'
import type { Connection } from './connection.ts'

type StreamRequest = {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  /** Milliseconds without any byte, after which the connection counts as lost. */
  readonly silentMs: number
}

/**
 * Yields the text of an answer as it comes, until its end. Throws {@link ApiProblem} if the daemon refused, {@link
 * UnexpectedAnswer} if the answer is not from vmhostd, {@link ConnectionFailed} if it breaks off, and the reason of the
 * signal.
 */
export async function* httpsText(
  { url, ca, cert, key }: Connection,
  { path, headers, signal, silentMs }: StreamRequest,
): AsyncGenerator<string> {
  const tls = { ca, cert, key, minVersion: 'TLSv1.3' } as const
  const { host: peer } = daemonUrl(url)
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const sent = httpsRequest(new URL(path, url), { agent: false, ...tls, headers, signal })
  let secure = false
  let answered = false
  sent.on('socket', (socket) => socket.once('secureConnect', () => (secure = true)))
  sent.on('response', resolve)
  sent.on('error', reject)
  sent.setTimeout(silentMs, () =>
    sent.destroy(new ConnectionFailed('late', `${peer} has sent nothing for ${silentMs / 1000} s`)),
  )
  sent.end()
  try {
    const response = await promise
    answered = true
    response.setEncoding('utf8')
    if (response.statusCode !== 200) throw await refusalOf(response)
    if (!/^text\/event-stream\b/.test(response.headers['content-type'] ?? '')) throw new UnexpectedAnswer(200)
    for await (const chunk of response) yield String(chunk)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ConnectionFailed || error instanceof ApiProblem || error instanceof UnexpectedAnswer)
      throw error
    throw connectionFailed(error, { peer, silentAfterHandshake: secure && !answered })
  } finally {
    sent.destroy()
  }
}

async function refusalOf(response: IncomingMessage): Promise<ApiProblem | UnexpectedAnswer> {
  let text = ''
  for await (const chunk of response) {
    text += String(chunk)
    if (text.length > limits.clientRefusalBytesMax) break
  }
  const body = parsedJson(text)
  if (!isProblem(body)) return new UnexpectedAnswer(response.statusCode ?? 0)
  return new ApiProblem(body, response.headers['retry-after'])
}
