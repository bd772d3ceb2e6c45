import { Type } from 'typebox'
import { limits } from '../../../config/limits.ts'
import { cursorAfter, parseCursor } from '../../wire/cursor.ts'
import { ref } from '../../wire/named.ts'
import { vmToWire } from '../../wire/vm-to-wire.ts'
import { OBSERVED_STATES } from '../../wire/vm.ts'
import { countersToWire } from '../../wire/counters.ts'
import { planToWire } from '../../wire/plan.ts'
import { CURSOR_PATTERN, LABEL_QUERY_PATTERN } from '../../wire/words.ts'
import { etagOf, isKnown } from '../precondition.ts'
import { preferredWaitSeconds } from '../prefer.ts'
import { invalidRequest } from '../validation.ts'
import { problems } from './answers.ts'
import { closed, contextOf, noQuery, params, tags, vmAnswer, vmOf } from './vm-parts.ts'
import type { VmId } from '../../../core/vm/ids.ts'
import type { CountersWire } from '../../wire/counters.ts'
import type { PlanWire } from '../../wire/plan.ts'
import type { VmListWire } from '../../wire/vm.ts'
import type { App } from '../app.ts'
import type { ControllerRooms } from '../rooms.ts'

/** Reading VMs: one, or a page of them. */
export function vmReadRoutes(app: App, rooms: ControllerRooms): void {
  listVms(app, rooms)
  getVm(app, rooms)
  getPlan(app, rooms)
  getCounters(app, rooms)
}

function listVms(app: App, rooms: ControllerRooms): void {
  const schema = {
    operationId: 'listVms',
    tags,
    summary: 'List VMs',
    description: 'In the order of their ids, a page at a time.',
    querystring: Type.Object(
      {
        limit: Type.Optional(
          Type.Integer({ minimum: 1, maximum: limits.listItemsMax, default: limits.listItemsDefault }),
        ),
        cursor: Type.Optional(
          Type.String({ pattern: CURSOR_PATTERN, description: 'The `next_cursor` of the page before.' }),
        ),
        state: Type.Optional(
          Type.Enum(OBSERVED_STATES, { type: 'string', description: 'Only VMs in this observed state.' }),
        ),
        label: Type.Optional(
          Type.String({
            pattern: LABEL_QUERY_PATTERN,
            description: 'Only VMs with all of these labels.',
            examples: ['env=prod,tier=web'],
          }),
        ),
      },
      closed,
    ),
    response: { 200: { ...ref('VmList'), description: 'A page of VMs.' }, ...problems('starting_up') },
  }
  app.get('/v1/vms', { schema }, async (request): Promise<VmListWire> => {
    const { limit = limits.listItemsDefault, cursor, state, label } = request.query
    const after = cursor === undefined ? undefined : afterCursor(cursor)
    // One more than asked for tells whether there is a next page.
    const { store } = contextOf(rooms)
    const records = store.vms.list({
      limit: limit + 1,
      ...(after === undefined ? {} : { after }),
      ...(state === undefined ? {} : { state }),
      ...(label === undefined ? {} : { labels: labelsOf(label) }),
    })
    // What is shown is on the disk.
    await store.flushed()
    const page = records.slice(0, limit)
    const last = page.at(-1)
    return {
      items: page.map((record) => vmToWire(record)),
      ...(records.length > limit && last !== undefined ? { next_cursor: cursorAfter(last.id) } : {}),
    }
  })
}

function getVm(app: App, rooms: ControllerRooms): void {
  app.addHook('preClose', async () => rooms.waits.end())
  const schema = {
    operationId: 'getVm',
    tags,
    summary: 'Get a VM',
    description:
      'What is desired, what the host has reached, and the two generations. With `If-None-Match` and `Prefer: wait=N` it ' +
      'is a long poll: the answer comes when the VM has changed, or as 304 after N seconds.',
    params,
    querystring: noQuery,
    headers: Type.Object({
      'if-none-match': Type.Optional(
        Type.String({ description: 'The ETag of an earlier answer: 304 where the VM is still the same.' }),
      ),
      prefer: Type.Optional(
        Type.String({
          description: `\`wait=N\`: wait up to N seconds for a change, at most ${limits.waitSecondsMax} (RFC 7240).`,
          examples: ['wait=30'],
        }),
      ),
    }),
    response: {
      200: vmAnswer('The VM.'),
      304: { type: 'null', description: 'The VM is as `If-None-Match` says.' },
      ...problems('not_found', 'starting_up'),
    },
  }
  app.get('/v1/vms/:id', { schema }, async (request, reply) => {
    const id = request.params.id as VmId
    const context = contextOf(rooms)
    const known = request.headers['if-none-match']
    const waitSeconds = preferredWaitSeconds(request.headers.prefer)
    if (waitSeconds !== undefined) {
      reply.header('preference-applied', `wait=${waitSeconds}`)
      if (isKnown(known, vmOf(context, id))) await rooms.waits.change(id, waitSeconds * 1000, request.signal)
    }
    const record = vmOf(context, id)
    await context.store.flushed()
    reply.header('etag', etagOf(record))
    return isKnown(known, record) ? reply.code(304).send() : vmToWire(record)
  })
}

function getPlan(app: App, rooms: ControllerRooms): void {
  const schema = {
    operationId: 'getVmPlan',
    tags,
    summary: 'Get the plan of a VM',
    description:
      'Looks at the host and tells what would be done next, step by step with the reasons, or what is waited for. Changes nothing.',
    params,
    querystring: noQuery,
    response: { 200: { ...ref('Plan'), description: 'The plan.' }, ...problems('not_found', 'starting_up') },
  }
  app.get('/v1/vms/:id/plan', { schema }, async (request): Promise<PlanWire> => {
    const context = contextOf(rooms)
    const record = vmOf(context, request.params.id as VmId)
    return planToWire(await rooms.plan(record, context.store.vms.inputs(record.id)))
  })
}

function getCounters(app: App, rooms: ControllerRooms): void {
  const schema = {
    operationId: 'getVmCounters',
    tags,
    summary: 'Get the counters of a VM',
    description: 'Traffic, drops and disk operations, read from the kernel and the monitor.',
    params,
    querystring: noQuery,
    response: {
      200: { ...ref('Counters'), description: 'The counters.' },
      ...problems(
        'not_found',
        'starting_up',
        'systemd_unavailable',
        'network_failed',
        'firewall_failed',
        'monitor_unreachable',
        'monitor_refused',
      ),
    },
  }
  app.get('/v1/vms/:id/counters', { schema }, async (request): Promise<CountersWire> => {
    const record = vmOf(contextOf(rooms), request.params.id as VmId)
    return countersToWire(await rooms.counters(record))
  })
}

/** `env=prod,tier=web`; the schema has seen that it is of that form. */
const labelsOf = (text: string): Record<string, string> =>
  Object.fromEntries(text.split(',').map((pair) => pair.split('=') as [string, string]))

function afterCursor(cursor: string): VmId {
  const after = parseCursor(cursor)
  if (after !== undefined) return after
  const detail = 'must be the next_cursor of an earlier answer'
  throw invalidRequest('query', [{ pointer: '/cursor', code: 'malformed', detail }])
}
