import { completeSnapshot, deleteSnapshot, handOverUrls, startSnapshot } from '../../../commands/snapshots.ts'
import { ref } from '../../wire/named.ts'
import { completeFromWire, startFromWire, urlsFromWire } from '../../wire/snapshot-from-wire.ts'
import { checkIfMatch } from '../precondition.ts'
import { invalidRequest } from '../validation.ts'
import { problems, requestIdHeader } from './answers.ts'
import { BODY_CODES } from './mutation.ts'
import { ifMatch, mutateSnapshot, snapshotMutationSchema } from './snapshot-mutation.ts'
import { params, tags } from './snapshot-parts.ts'
import { contextOf, noQuery } from './vm-parts.ts'
import type { SnapshotId } from '../../../core/snapshot/record.ts'
import type { Complaint } from '../../../lib/schema-check.ts'
import type { Result } from '../../../lib/result.ts'
import type { SnapshotWire } from '../../wire/snapshot.ts'
import type { App } from '../app.ts'
import type { ControllerRooms } from '../rooms.ts'

/** Serves the life of a snapshot: its start, its URLs, its end. */
export function snapshotChangeRoutes(app: App, rooms: ControllerRooms): void {
  putSnapshot(app, rooms)
  putUpload(app, rooms)
  postComplete(app, rooms)
  removeSnapshot(app, rooms)
}

function putSnapshot(app: App, rooms: ControllerRooms): void {
  const schema = {
    ...snapshotMutationSchema(
      'not_found',
      'conflict',
      'vm_deleting',
      'snapshots_full',
      'url_not_allowed',
      ...BODY_CODES,
    ),
    operationId: 'startSnapshot',
    summary: 'Take a snapshot of a VM',
    description:
      'Of a VM that runs, sleeps or is stopped. The same request again answers the snapshot that is there, however far it is; ' +
      'URLs are no part of what makes two requests the same, and fresh ones replace those that were stored. Another VM or ' +
      'another size of parts for the same id is 409 `conflict`.',
    body: ref('StartSnapshot'),
  }
  app.put('/v1/snapshots/:id', { schema }, async (request, reply): Promise<SnapshotWire> => {
    const start = valid(startFromWire(request.body))
    return mutateSnapshot({ request, reply, rooms, creates: true }, (context, id) =>
      startSnapshot(context, id, start),
    )
  })
}

function putUpload(app: App, rooms: ControllerRooms): void {
  const schema = {
    ...snapshotMutationSchema('not_found', 'snapshot_failed', 'url_not_allowed', ...BODY_CODES),
    operationId: 'putSnapshotUrls',
    summary: 'Hand over URLs',
    description:
      'More of them, or fresh ones for those that have expired. A snapshot that waits for them goes on, and so does one that has ' +
      'failed and is `resumable`. One that is completed takes no URLs, and nothing of it is sent again, also ' +
      'while it is staged: the answer is 200 with the snapshot as it is. To send the disk again, take another snapshot.',
    body: ref('SnapshotUrls'),
  }
  app.put('/v1/snapshots/:id/upload', { schema }, async (request, reply): Promise<SnapshotWire> => {
    const urls = valid(urlsFromWire(request.body))
    return mutateSnapshot({ request, reply, rooms }, (context, id) => handOverUrls(context, id, urls))
  })
}

function postComplete(app: App, rooms: ControllerRooms): void {
  const schema = {
    ...snapshotMutationSchema('not_found', 'snapshot_failed', 'url_not_allowed', ...BODY_CODES),
    operationId: 'completeSnapshot',
    summary: 'Let the upload be completed',
    description:
      'As soon as every part is sent, which may be later. It answers at once: `status` is `completed` when the store has put the ' +
      'object together. Safe to repeat, also when it is completed.',
    body: ref('CompleteSnapshot'),
  }
  app.post('/v1/snapshots/:id/complete', { schema }, async (request, reply): Promise<SnapshotWire> => {
    const urls = valid(completeFromWire(request.body))
    return mutateSnapshot({ request, reply, rooms }, (context, id) => completeSnapshot(context, id, urls))
  })
}

function removeSnapshot(app: App, rooms: ControllerRooms): void {
  const schema = {
    tags,
    params,
    querystring: noQuery,
    headers: ifMatch,
    operationId: 'deleteSnapshot',
    summary: 'Delete a snapshot',
    description:
      'Takes it off the record with its URLs, whatever it is at; what is staged of it on the host follows. Until then the ' +
      'parts of a completed snapshot stay staged: delete it when its object is where it should be. The object stays in the store; an upload that is not completed must be aborted there. If there is no such snapshot, the answer ' +
      'is 204 all the same.',
    response: {
      204: { type: 'null', description: 'There is no such snapshot any more.', headers: requestIdHeader },
      ...problems('starting_up', 'state_unwritable', 'precondition_failed'),
    },
  }
  app.delete('/v1/snapshots/:id', { schema }, async (request, reply) => {
    const context = contextOf(rooms)
    const id = request.params.id as SnapshotId
    const before = context.store.snapshots.get(id)
    if (before !== undefined) checkIfMatch(request.headers['if-match'], before, 'snapshot')
    request.vmId = before?.vmId
    request.operationId = deleteSnapshot(context, id)
    await context.store.flushed()
    return reply.code(204).send()
  })
}

function valid<T>(read: Result<T, readonly Complaint[]>): T {
  if (read.ok) return read.value
  throw invalidRequest('body', read.error)
}
