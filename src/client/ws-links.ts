import { createSecureContext } from 'node:tls'
import { WebSocket } from 'ws'
import { limits } from '../config/limits.ts'
import { BROKEN, parseClose } from '../core/console/close.ts'
import { parsedJson } from '../lib/parsed-values.ts'
import { ApiProblem, isProblem, UnexpectedAnswer } from './api-problem.ts'
import { connectionFailed } from './connection-failed.ts'
import type { IncomingMessage } from 'node:http'
import type { Connection } from './connection.ts'
import type { Link, LinkListeners, Links } from './console/link.ts'

/** Makes console links over mutual TLS. Throws node:tls's error if certificate and key do not match or are not PEM. */
export function wsLinks(connection: Connection): Links {
  const { url, ca, cert, key } = connection
  createSecureContext({ ca, cert, key })
  return {
    peer: new URL(url).host,
    hearPings: true,
    open: (path, listeners, signal) => open(connection, path, { listeners, signal }),
  }
}

async function open(
  { url, ca, cert, key }: Connection,
  path: string,
  { listeners, signal }: { readonly listeners: LinkListeners; readonly signal: AbortSignal },
): Promise<Link> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const { host: peer } = new URL(url)
  let secure = false
  const ws = new WebSocket(`wss://${peer}${path}`, {
    ...{ ca, cert, key, minVersion: 'TLSv1.3' },
    perMessageDeflate: false,
    // The daemon never has more than this on its way to one viewer.
    maxPayload: limits.consoleViewerBehindBytesMax,
    finishRequest: (request) => {
      request.on('socket', (socket) => socket.once('secureConnect', () => (secure = true)))
      request.end()
    },
  })
  // The first messages may arrive together with the answer to the handshake.
  listen(ws, listeners)
  ws.on('open', resolve)
  ws.on('unexpected-response', (_request, response) => void refusal(response).then(reject, reject))
  ws.on('error', (error) =>
    reject(signal.aborted ? signal.reason : connectionFailed(error, { peer, silentAfterHandshake: secure })),
  )
  const giveUp = (): void => ws.terminate()
  signal.addEventListener('abort', giveUp)
  try {
    await promise
    return linkOf(ws)
  } catch (error) {
    ws.terminate()
    throw error
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}

function listen(ws: WebSocket, { onBytes, onText, onPing, onClosed }: LinkListeners): void {
  ws.on('message', (data: Buffer, isBinary) => (isBinary ? onBytes(data) : onText(data.toString())))
  ws.on('ping', onPing)
  ws.on('close', (status, reason) =>
    onClosed(status === BROKEN.status ? BROKEN : parseClose(status, String(reason))),
  )
}

const linkOf = (ws: WebSocket): Link => ({
  reading: { pause: () => ws.pause(), resume: () => ws.resume() },
  send(message) {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    if (ws.readyState !== WebSocket.OPEN) return Promise.resolve(false)
    ws.send(message, { binary: typeof message !== 'string' }, (error) => resolve(!error))
    return promise
  },
  close: () => ws.close(1000),
  terminate: () => ws.terminate(),
})

/** Returns the answer to a refused upgrade as an error. */
async function refusal(response: IncomingMessage): Promise<Error> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    length += chunk.length
    if (length > limits.clientRefusalBytesMax) break
  }
  const body = parsedJson(Buffer.concat(chunks).toString())
  if (!isProblem(body)) return new UnexpectedAnswer(response.statusCode ?? 0)
  return new ApiProblem(body, response.headers['retry-after'])
}
