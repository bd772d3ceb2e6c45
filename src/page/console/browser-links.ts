import { ApiProblem, isProblem, UnexpectedAnswer } from '../../client/api-problem.ts'
import { ConnectionFailed } from '../../client/connection-failed.ts'
import { limits } from '../../config/limits.ts'
import { BROKEN, parseClose } from '../../core/console/close.ts'
import { jsonBody } from '../browser/json-body.ts'
import type { Link, LinkListeners, Links } from '../../client/console/link.ts'

const UPGRADE_REQUIRED = 426

/** Makes console links to the daemon that served the page, with the browser's certificate. */
export const browserLinks: Links = { peer: 'the daemon', hearPings: false, open }

async function open(path: string, listeners: LinkListeners, signal: AbortSignal): Promise<Link> {
  const socket = new WebSocket(`wss://${location.host}${path}`)
  socket.binaryType = 'arraybuffer'
  const opened = Promise.withResolvers<boolean>()
  // A browser may report the end of a dead connection only after minutes, so the link ends itself.
  let isOver = false
  const end = (close = BROKEN): void => {
    if (!isOver) listeners.onClosed(close)
    isOver = true
    opened.resolve(false)
    socket.close()
  }
  socket.addEventListener('open', () => opened.resolve(true))
  socket.addEventListener('close', ({ code, reason }) => end(parseClose(code, reason)))
  socket.addEventListener('message', ({ data }: MessageEvent<string | ArrayBuffer>) => {
    if (isOver) return
    if (typeof data === 'string') listeners.onText(data)
    else listeners.onBytes(new Uint8Array(data))
  })
  const giveUp = (): void => end()
  signal.addEventListener('abort', giveUp)
  try {
    const isOpen = await opened.promise
    signal.throwIfAborted()
    if (!isOpen) throw await refusal(path, signal)
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
  return {
    reading: undefined,
    async send(message) {
      if (socket.readyState !== WebSocket.OPEN) return false
      socket.send(message as string | Uint8Array<ArrayBuffer>)
      await room(socket)
      return socket.readyState === WebSocket.OPEN
    },
    close: () => socket.close(1000),
    terminate: () => end(),
  }
}

/** Resolves when the socket takes more, or is gone. A browser keeps any amount, and does not say when it was sent. */
async function room(socket: WebSocket): Promise<void> {
  while (socket.readyState === WebSocket.OPEN && socket.bufferedAmount > limits.consolePageUnsentBytesMax)
    await new Promise((resolve) => setTimeout(resolve, limits.consolePageUnsentLookMs))
}

/**
 * Finds out why a WebSocket was refused at this path, because browsers do not show it: sends the same request without
 * an upgrade, which is answered.
 */
async function refusal(path: string, signal: AbortSignal): Promise<Error> {
  const bound = AbortSignal.any([signal, AbortSignal.timeout(limits.consolePageAskMs)])
  let answer: Response
  let body: unknown
  try {
    answer = await fetch(path, { signal: bound })
    body = await jsonBody(answer)
  } catch (error) {
    return new ConnectionFailed('unreachable', 'the daemon does not answer', error)
  }
  // The only refusal left is that this request is not an upgrade.
  if (answer.status === UPGRADE_REQUIRED) return new ConnectionFailed('broken', 'the connection failed')
  if (!isProblem(body)) return new UnexpectedAnswer(answer.status)
  return new ApiProblem(body, answer.headers.get('retry-after'))
}
