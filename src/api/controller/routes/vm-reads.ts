import { Type } from 'typebox'
import { limits } from '../../../config/limits.ts'
import { cursorAfter, parseCursor } from '../../wire/cursor.ts'
import { ref } from '../../wire/named.ts'
import { vmToWire } from '../../wire/vm-to-wire.ts'
import { OBSERVED_STATES } from '../../wire/vm.ts'
import { CURSOR_PATTERN } from '../../wire/words.ts'
import { etagOf } from '../precondition.ts'
import { Refused } from '../refused.ts'
import { invalidRequest } from '../validation.ts'
import { problems } from './answers.ts'
import { closed, contextOf, noQuery, params, tags, vmAnswer } from './vm-parts.ts'
import type { VmId } from '../../../core/vm/ids.ts'
import type { VmListWire, VmWire } from '../../wire/vm.ts'
import type { App } from '../app.ts'
import type { ControllerRooms } from '../rooms.ts'

/** Reading VMs: one, or a page of them. */
export function vmReadRoutes(app: App, rooms: ControllerRooms): void {
  listVms(app, rooms)
  getVm(app, rooms)
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
      },
      closed,
    ),
    response: { 200: { ...ref('VmList'), description: 'A page of VMs.' }, ...problems('starting_up') },
  }
  app.get('/v1/vms', { schema }, async (request): Promise<VmListWire> => {
    const { limit = limits.listItemsDefault, cursor, state } = request.query
    const after = cursor === undefined ? undefined : afterCursor(cursor)
    // One more than asked for tells whether there is a next page.
    const records = contextOf(rooms).store.vms.list({
      limit: limit + 1,
      ...(after === undefined ? {} : { after }),
      ...(state === undefined ? {} : { state }),
    })
    const page = records.slice(0, limit)
    const last = page.at(-1)
    return {
      items: page.map((record) => vmToWire(record)),
      ...(records.length > limit && last !== undefined ? { next_cursor: cursorAfter(last.id) } : {}),
    }
  })
}

function getVm(app: App, rooms: ControllerRooms): void {
  const schema = {
    operationId: 'getVm',
    tags,
    summary: 'Get a VM',
    description: 'What is desired, what the host has reached, and the two generations.',
    params,
    querystring: noQuery,
    response: { 200: vmAnswer('The VM.'), ...problems('not_found', 'starting_up') },
  }
  app.get('/v1/vms/:id', { schema }, async (request, reply): Promise<VmWire> => {
    const id = request.params.id as VmId
    const record = contextOf(rooms).store.vms.get(id)
    if (record === undefined)
      throw new Refused({ code: 'not_found', detail: `there is no VM ${id} on this host` })
    reply.header('etag', etagOf(record))
    return vmToWire(record)
  })
}

function afterCursor(cursor: string): VmId {
  const after = parseCursor(cursor)
  if (after !== undefined) return after
  const detail = 'must be the next_cursor of an earlier answer'
  throw invalidRequest('query', [{ pointer: '/cursor', code: 'malformed', detail }])
}
