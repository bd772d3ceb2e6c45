import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import type { IncomingMessage } from 'node:http'
import { limits } from '../../config/limits.ts'
import { abortable } from '../../lib/abortable.ts'
import { connectToMonitor } from '../monitors/monitor-socket.ts'
import { lostBy, MonitorLost, MonitorRefusal } from '../monitors/monitor-error.ts'

export type ApiRequest = {
  readonly method: 'GET' | 'PUT' | 'PATCH'
  /** E.g. `/vm/config`. */
  readonly target: string
  readonly body?: object
  /** The time for the answer; that of a quick command when absent. */
  readonly withinMs?: number
}

/**
 * Sends a request to Firecracker's API, and returns its answer (Firecracker,
 * src/firecracker/swagger/firecracker.yaml). Firecracker answers one request after the other, so an answer may be late
 * because of another one. Each request has a connection of its own. Throws MonitorRefusal with its `fault_message`,
 * MonitorLost, and the signal's reason; an abort ends the waiting, and not what was requested.
 */
export async function askFirecracker(path: string, asked: ApiRequest, signal: AbortSignal): Promise<unknown> {
  signal.throwIfAborted()
  const { withinMs = limits.qmpCommandMs } = asked
  const late = AbortSignal.timeout(withinMs)
  const ended = AbortSignal.any([signal, late])
  try {
    // The bound must hold no matter what Node makes of the bytes that come.
    return await abortable(exchange(path, asked, ended), ended)
  } catch (error) {
    signal.throwIfAborted()
    if (late.aborted) throw new MonitorLost('no answer')
    throw error instanceof MonitorRefusal || error instanceof MonitorLost ? error : lostBy(error)
  }
}

async function exchange(path: string, asked: ApiRequest, signal: AbortSignal): Promise<unknown> {
  const response = await send(path, asked, signal)
  const content = await text(bounded(response))
  const answer = content === '' ? undefined : (JSON.parse(content) as unknown)
  if ((response.statusCode ?? 0) < 300) return answer
  const { fault_message: desc } = (answer ?? {}) as { fault_message?: unknown }
  throw new MonitorRefusal({ desc })
}

function send(
  path: string,
  { method, target, body }: ApiRequest,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const socket = connectToMonitor(path)
  const content = body === undefined ? undefined : JSON.stringify(body)
  const headers = {
    host: 'localhost',
    accept: 'application/json',
    ...(content === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(content) }),
  }
  return new Promise((resolve, reject) => {
    const sent = request({ createConnection: () => socket, method, path: target, headers, signal }, resolve)
    sent.on('error', reject)
    // Firecracker sends none. Node takes any number of them before an answer.
    sent.on('information', () => sent.destroy(new MonitorLost('an informational answer')))
    // Node reports no error when an answer changes the protocol (101): it closes the connection.
    sent.on('close', () => reject(new MonitorLost('closed')))
    sent.end(content)
  })
}

/** Ends with an error after more than an answer of Firecracker has. */
async function* bounded(response: IncomingMessage): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > limits.firecrackerAnswerBytesMax) throw new MonitorLost('an answer that is too long')
    yield chunk
  }
}
