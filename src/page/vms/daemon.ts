import { ApiProblem, isProblem, UnexpectedAnswer } from '../../client/api-problem.ts'
import { ConnectionFailed } from '../../client/connection-failed.ts'
import { limits } from '../../config/limits.ts'
import { jsonBody } from '../browser/json-body.ts'
import { inventoryOf } from './inventory.ts'
import type { components } from '../../client/schema.d.ts'
import type { Sync } from './capacity.ts'
import type { VmList } from './inventory.ts'
import type { Daemon, FollowListeners } from './live-list.ts'

type EventStart = components['schemas']['EventStart']

/** Talks to the daemon that served the page, with the browser's certificate. */
export const daemon: Daemon = {
  async list(signal) {
    const pages: VmList[] = []
    for (let cursor: string | undefined; ;) {
      const page = await get<VmList>('/v1/vms', { limit: limits.listItemsMax, cursor }, signal)
      pages.push(page)
      cursor = page.next_cursor
      if (cursor === undefined) return inventoryOf(pages)
    }
  },
  changes: (after, signal) => get('/v1/vms', { limit: limits.listItemsMax, changed_after: after }, signal),
  sync: (signal) => get<Sync>('/v1/sync', {}, signal),
  follow,
}

type Query = Readonly<Record<string, string | number | undefined>>

/** Asks for JSON. Throws ApiProblem, UnexpectedAnswer or ConnectionFailed, or the reason of the signal. */
async function get<T>(path: string, query: Query, signal: AbortSignal): Promise<T> {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]],
  )
  const search = new URLSearchParams(given).toString()
  const bound = AbortSignal.any([signal, AbortSignal.timeout(limits.hostPageAnswerMs)])
  let answer: Response
  let body: unknown
  try {
    answer = await fetch(search === '' ? path : `${path}?${search}`, { signal: bound, cache: 'no-store' })
    body = await jsonBody(answer)
  } catch (error) {
    signal.throwIfAborted()
    throw new ConnectionFailed('unreachable', 'the host does not answer', error)
  }
  signal.throwIfAborted()
  if (answer.ok && body !== undefined) return body as T
  if (!isProblem(body)) throw new UnexpectedAnswer(answer.status)
  throw new ApiProblem(body, answer.headers.get('retry-after'))
}

/** Reads the stream of events. The browser connects again by itself, unless the daemon refuses; then this does it. */
function follow(after: number, { onEvent, onOpen }: FollowListeners): () => void {
  let source: EventSource | undefined
  let waiting: ReturnType<typeof setTimeout> | undefined
  const open = (): void => {
    const stream = new EventSource(`/v1/events?after=${after}`)
    source = stream
    stream.addEventListener('open', () => onOpen(true))
    stream.addEventListener('start', ({ data }: MessageEvent<string>) => {
      const start = JSON.parse(data) as EventStart
      if (start.missed) onEvent(0)
    })
    stream.addEventListener('message', ({ lastEventId }) => onEvent(Number(lastEventId)))
    stream.addEventListener('error', () => {
      onOpen(false)
      // While nothing is heard, a look shows whether the daemon is there.
      onEvent(0)
      if (stream.readyState === EventSource.CLOSED) waiting = setTimeout(open, limits.hostPageAskEveryMs)
    })
  }
  open()
  return () => {
    clearTimeout(waiting)
    source?.close()
  }
}
