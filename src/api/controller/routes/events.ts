import { Readable } from 'node:stream'
import { Type } from 'typebox'
import { limits } from '../../../config/limits.ts'
import { given } from '../../../lib/given.ts'
import { closed } from '../../../lib/schema-check.ts'
import { eventToWire } from '../../wire/events.ts'
import { ref } from '../../wire/named.ts'
import { SEQUENCE_PATTERN } from '../../wire/values.ts'
import { vmIdSchema } from '../../wire/vm.ts'
import { problems, requestIdHeader } from '../../listener/answers.ts'
import { EventReaders } from '../event-readers.ts'
import { eventStream } from '../event-stream.ts'
import { afterCursor, pageMembers, pageOf } from './page.ts'
import { contextOf, params } from './vm-parts.ts'
import { DAY_MS } from '../../../lib/time-units.ts'
import type { VmId } from '../../../core/ids.ts'
import type { EventListWire } from '../../wire/events.ts'
import type { App } from '../../listener/app.ts'
import type { Role } from '../clients.ts'
import type { ApiDependencies } from '../dependencies.ts'

const tags = ['Events']

export const EVENTS_DESCRIPTION =
  `What happened on the host. The last ${limits.eventsMax} events of ${limits.eventsAgeMsMax / DAY_MS} days are kept, and the last ${limits.eventsKeptMin} in any case. ` +
  'An event is stored together with the change that it is about, so the events of a VM explain its states without a gap.'

/** Serves the events: as they happen, and those of one VM. */
export function eventRoutes(app: App, dependencies: ApiDependencies): void {
  streamEvents(app, dependencies)
  listVmEvents(app, dependencies)
}

const STREAM_DESCRIPTION =
  'A stream of server-sent events (`text/event-stream`). The first message has the type `start` and the data `EventStart`: from which ' +
  'number on events follow, and whether some are missing that were asked for. Each further message without a type is an `Event`, and ' +
  'its id is the `sequence`. `start` can come again, with `missed`, if events were removed before a slow reader took them. A `start` ' +
  'with `missed` means: read everything again. An id without data brings the reader forward. A reader that connects again sends the last id as `Last-Event-ID`, as `EventSource` of browsers does, and misses ' +
  `nothing that is kept. A comment comes after ${limits.eventHeartbeatMs / 1000} s of silence. The daemon ends the connection of a ` +
  `reader that takes nothing for ${limits.eventReaderStallMs / 1000} s.`

/** The media type has no schema of its own for its messages: `contentSchema` says what the data of one holds. */
const STREAM = {
  type: 'string',
  contentMediaType: 'text/event-stream',
  contentSchema: { anyOf: [ref('EventStart'), ref('Event')] },
}

const streamSchema = {
  operationId: 'streamEvents',
  tags,
  summary: 'Read events as they happen',
  description: STREAM_DESCRIPTION,
  querystring: Type.Object(
    {
      after: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          description:
            'Events with higher numbers, `0` for all that are kept. `Last-Event-ID` comes first. Without either, events from now on.',
        }),
      ),
      vm_id: Type.Optional(vmIdSchema),
      follow: Type.Optional(
        Type.Boolean({ default: true, description: 'If false, the stream ends after the newest event.' }),
      ),
    },
    closed,
  ),
  headers: Type.Object({
    'last-event-id': Type.Optional(
      Type.String({ pattern: SEQUENCE_PATTERN, description: 'The id of the last message that was read.' }),
    ),
  }),
  response: {
    200: {
      description: 'Events, without an end unless `follow=false`.',
      headers: requestIdHeader,
      content: { 'text/event-stream': { schema: STREAM } },
    },
    ...problems('event_readers_full'),
  },
}

function streamEvents(app: App, { eventWaits, log, ...dependencies }: ApiDependencies): void {
  const readers = new EventReaders()
  const roleOf = (name: string): Role => dependencies.clients?.get(name)?.role ?? 'controller'
  app.addHook('preClose', async () => readers.close())
  // An answer without a body would never end.
  const route = { schema: streamSchema, exposeHeadRoute: false }
  app.get('/v1/events', route, async (request, reply) => {
    const { store } = contextOf({ eventWaits, log, ...dependencies })
    const { after, vm_id: vmId, follow = true } = request.query
    const last = request.headers['last-event-id']
    const signal = AbortSignal.any([request.signal, readers.closing])
    const texts = eventStream(
      {
        list: (query) => store.events.list(query),
        get newest() {
          return store.events.newest
        },
        get keptAfter() {
          return store.events.keptAfter
        },
        get beganAfter() {
          return store.events.beganAfter
        },
        atOpening: store.events.atOpening,
        flushed: () => store.flushedAll(),
      },
      {
        ...given({ after: last === undefined ? after : Number(last), vmId: vmId as VmId | undefined }),
        follow,
        signal,
        wait: (ms) => eventWaits.change('events', ms, signal),
        monotonicMs: () => performance.now(),
      },
    )
    const client = { name: request.peerName, role: roleOf(request.peerName) }
    const taken = readers.take(client, texts, () => {
      log.warn(
        { request_id: request.id, ...request.peer, limit_ms: limits.eventReaderStallMs },
        'event reader stalled',
      )
      reply.raw.destroy()
    })
    reply.raw.once('close', taken.release)
    dependencies.endIfGone(request.raw.socket, limits.eventReaderGoneMs)
    reply.headers({ 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    return reply.send(Readable.from(taken.texts, { highWaterMark: 1 }))
  })
}

function listVmEvents(app: App, dependencies: ApiDependencies): void {
  const schema = {
    operationId: 'listVmEvents',
    tags,
    summary: 'List the events of a VM',
    description:
      'The events that are kept of a VM and its snapshots, the oldest first, a page at a time. Also for an id whose VM is gone; events ' +
      'of all VMs that had the id are listed. Empty if there are none.',
    params,
    querystring: Type.Object(pageMembers, closed),
    response: {
      200: { ...ref('EventList'), description: 'A page of events.', headers: requestIdHeader },
      ...problems(),
    },
  }
  app.get('/v1/vms/:id/events', { schema }, async (request): Promise<EventListWire> => {
    const { limit = limits.listItemsDefault, cursor } = request.query
    const after = Number(afterCursor('events', cursor) ?? 0)
    const { store } = contextOf(dependencies)
    const events = store.events
      .list({ after, limit: limit + 1, vmId: request.params.id as VmId })
      .map((event) => ({ id: String(event.sequence), event }))
    const keptAfter = store.events.keptAfter
    // Answer only what is on the disk.
    await store.flushedAll()
    const page = pageOf('events', events, { limit, show: ({ event }) => eventToWire(event) })
    return { ...page, kept_after: keptAfter }
  })
}
