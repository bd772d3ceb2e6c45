import { limits } from '../../config/limits.ts'
import { lacksChanges, newsAfter } from '../../core/events/history.ts'
import { eventToWire } from '../wire/events.ts'
import { given } from '../../lib/given.ts'
import type { ChangeHistory } from '../../core/events/history.ts'
import type { VmId } from '../../core/ids.ts'
import type { EventTable } from '../../store/events/event-table.ts'
import type { EventStartWire } from '../wire/events.ts'

/** The events that a stream reads. */
export type EventSource = Pick<EventTable, 'list' | keyof ChangeHistory> & {
  /** Resolves when all events that were listed are on the disk. */
  readonly flushed: () => Promise<void>
}

export type EventStreamOptions = {
  /** The number after which the reader wants events; absent: from now on. */
  readonly after?: number
  /** Only events of this VM. */
  readonly vmId?: VmId
  /** Whether the stream goes on after the newest event. */
  readonly follow: boolean
  readonly signal: AbortSignal
  /** Resolves when there may be new events, after `ms`, or on the signal. */
  readonly wait: (ms: number) => Promise<void>
  /** Milliseconds of a monotonic clock. */
  readonly monotonicMs: () => number
}

/**
 * Yields the text of a stream of events (WHATWG HTML, "Server-sent events"): first a `start` message that says what the
 * reader gets, then each event with its number as id. Another `start` says that events were removed before a slow
 * reader took them. An id without a message brings a reader forward when events that it does not want have passed, and
 * keeps an idle connection alive.
 */
export async function* eventStream(source: EventSource, options: EventStreamOptions): AsyncGenerator<string> {
  const { vmId, signal, monotonicMs } = options
  const start = startOf(source, options.after)
  let position = start.after
  let sentId = position
  yield `retry: ${limits.clientReconnectMsMax}\n${startText(start)}`
  let sentMs = monotonicMs()
  while (!signal.aborted) {
    if (position < source.keptAfter) {
      position = source.keptAfter
      yield startText({ after: position, kept_after: position, missed: true })
    }
    const { newest } = source
    const events = source.list({
      after: position,
      limit: limits.eventsBatch,
      ...given({ vmId }),
    })
    position = events.length < limits.eventsBatch ? newest : (events.at(-1)?.sequence ?? newest)
    if (events.length > 0) {
      // Show only what is on the disk.
      await source.flushed()
      sentId = events.at(-1)?.sequence ?? sentId
      yield events.map((event) => messageText(event.sequence, JSON.stringify(eventToWire(event)))).join('')
      sentMs = monotonicMs()
      continue
    }
    if (!options.follow) return
    const silentMs = monotonicMs() - sentMs
    if (silentMs < limits.eventHeartbeatMs) {
      await options.wait(limits.eventHeartbeatMs - silentMs)
      continue
    }
    yield sentId === position ? ':\n\n' : `:\nid: ${position}\n\n`
    sentId = position
    sentMs = monotonicMs()
  }
}

/** Returns where a stream begins. */
export function startOf(history: ChangeHistory, wanted: number | undefined = history.newest): EventStartWire {
  const { keptAfter } = history
  const missed = lacksChanges(history, wanted)
  return { after: missed ? newsAfter(history, wanted) : wanted, kept_after: keptAfter, missed }
}

const startText = (start: EventStartWire): string =>
  `event: start\n${messageText(start.after, JSON.stringify(start))}`

const messageText = (id: number, data: string): string => `id: ${id}\ndata: ${data}\n\n`
