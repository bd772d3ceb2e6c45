import { limits } from '../config/limits.ts'
import { abortable } from '../lib/abortable.ts'
import { ApiProblem, UnexpectedAnswer } from './api-problem.ts'
import { ConnectionFailed, mayPass } from './connection-failed.ts'
import { httpsText } from './https-stream.ts'
import { SseParser } from './sse-parser.ts'
import { timerSleep } from './timer-sleep.ts'
import { given } from '../lib/given.ts'
import type { Connection } from './connection.ts'
import type { SseMessage } from './sse-parser.ts'
import type { components } from './schema.d.ts'

export type HostEvent = components['schemas']['Event']
export type EventStart = components['schemas']['EventStart']

/**
 * What a reader of events gets. `start`: from which number on events follow; it comes first, again after each
 * connection, and with `missed` whenever events before it are not kept: then read everything again. `silent`: the
 * connection is lost, and is made again.
 */
export type EventSight =
  | { readonly kind: 'start'; readonly start: EventStart }
  | { readonly kind: 'event'; readonly event: HostEvent }
  | { readonly kind: 'silent'; readonly because: ConnectionFailed | ApiProblem | undefined }

export type ReadEventsOptions = {
  /** Events with higher numbers; absent: from now on. */
  readonly after?: number
  readonly vmId?: string
  /** Goes on after the newest event, and connects again when the connection is lost. */
  readonly follow: boolean
  /** Ends the reading: it throws the signal's reason. */
  readonly signal: AbortSignal
  /** Resolves after so many milliseconds, or rejects when the signal is raised. Default: a timer of Node. */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>
}

/**
 * Yields events as they come. After a lost connection it continues after the last one. Throws the error of the first
 * connection; later ones wait for the daemon, and throw what a restart of it does not cause.
 */
export async function* readEvents(
  connection: Connection,
  { after, vmId, follow, signal, sleep = timerSleep }: ReadEventsOptions,
): AsyncGenerator<EventSight> {
  const query = new URLSearchParams({
    ...(after === undefined ? {} : { after: String(after) }),
    ...given({ vm_id: vmId }),
    ...(follow ? {} : { follow: 'false' }),
  })
  let lastId: string | undefined
  for (;;) {
    const parser = new SseParser()
    parser.lastId = lastId
    let because: ConnectionFailed | ApiProblem | undefined
    try {
      const headers: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId }
      const path = `/v1/events?${query.toString()}`
      const silentMs = limits.clientEventsSilentMs
      for await (const text of httpsText(connection, { path, headers, signal, silentMs })) {
        for (const message of parser.take(text)) yield sightOf(message)
        if (parser.pendingCharacters > limits.clientEventCharactersMax) throw new UnexpectedAnswer(200)
        lastId = parser.lastId
      }
      if (!follow) return
    } catch (error) {
      because = passing(error, lastId === undefined)
    }
    yield { kind: 'silent', because }
    await abortable(sleep(limits.clientPollMs, signal), signal)
  }
}

function sightOf({ type, data }: SseMessage): EventSight {
  const value: unknown = JSON.parse(data)
  return type === 'start'
    ? { kind: 'start', start: value as EventStart }
    : { kind: 'event', event: value as HostEvent }
}

/** Returns an error after which it makes sense to connect again; throws every other one. */
function passing(error: unknown, isFirst: boolean): ConnectionFailed | ApiProblem {
  if (isFirst) throw error
  if (error instanceof ConnectionFailed && mayPass(error)) return error
  if (error instanceof ApiProblem && error.problem.retryable) return error
  throw error
}
