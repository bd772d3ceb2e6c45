import {
  completeSnapshot,
  deleteSnapshot,
  handOverUrls,
  startSnapshot,
} from '../../../commands/snapshots/snapshots.ts'
import { ref } from '../../wire/named.ts'
import { completeFromWire, startFromWire, urlsFromWire } from '../../wire/snapshot-from-wire.ts'
import { checkPreconditions } from './preconditions.ts'
import { invalidRequest } from '../../listener/validation.ts'
import { BODY_CODES, noQuery, problems, requestIdHeader } from '../../listener/answers.ts'
import { LEAVING_CODES } from './mutation.ts'
import { conditions, mutateSnapshot, snapshotMutationSchema } from './snapshot-mutation.ts'
import { params, tags } from './snapshot-parts.ts'
import { contextOf } from './vm-parts.ts'
import { versionsOf } from '../versions.ts'
import type { SnapshotId } from '../../../core/snapshots/record.ts'
import type { Complaint } from '../../../lib/schema-check.ts'
import type { Result } from '../../../lib/result.ts'
import type { SnapshotWire } from '../../wire/snapshot.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves the life of a snapshot: its start, its URLs, its end. */
export function snapshotChangeRoutes(app: App, dependencies: ApiDependencies): void {
  putSnapshot(app, dependencies)
  putUpload(app, dependencies)
  postComplete(app, dependencies)
  removeSnapshot(app, dependencies)
}

function putSnapshot(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...snapshotMutationSchema(
      'conflict',
      'vm_deleting',
      ...LEAVING_CODES,
      'snapshots_full',
      'upload_differs',
      'url_not_allowed',
    ),
    operationId: 'startSnapshot',
    summary: 'Take a snapshot of a VM',
    description:
      'The VM may run, sleep or be stopped. The same request again returns the existing snapshot, whatever its progress. ' +
      'URLs are not compared: fresh ones replace those that were stored. Another VM or ' +
      'another part size for the same id is answered with 409 `conflict`.',
    body: ref('StartSnapshot'),
  }
  app.put('/v1/snapshots/:id', { schema }, async (request, reply): Promise<SnapshotWire> => {
    const start = valid(startFromWire(request.body))
    return mutateSnapshot({ request, reply, dependencies, creates: true }, (context, id) =>
      startSnapshot(context, id, start),
    )
  })
}

function putUpload(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...snapshotMutationSchema('snapshot_failed', 'snapshots_full', 'upload_differs', 'url_not_allowed'),
    operationId: 'putSnapshotUrls',
    summary: 'Hand over URLs',
    description:
      'More URLs of the same multipart upload, or fresh ones for those that have expired. Once a part was sent, URLs with another ' +
      '`uploadId` are answered with 409 `upload_differs`. A snapshot that waits for them continues, and so does one that has ' +
      'failed and is `resumable`. A completed one accepts no URLs and sends none of its parts again, even ' +
      'while they are staged: the answer is 200 with the snapshot as it is. To send the disk again, take another snapshot.',
    body: ref('SnapshotUrls'),
  }
  app.put('/v1/snapshots/:id/upload', { schema }, async (request, reply): Promise<SnapshotWire> => {
    const urls = valid(urlsFromWire(request.body))
    return mutateSnapshot({ request, reply, dependencies }, (context, id) => handOverUrls(context, id, urls))
  })
}

function postComplete(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...snapshotMutationSchema('snapshot_failed', 'upload_differs', 'url_not_allowed'),
    operationId: 'completeSnapshot',
    summary: 'Let the upload be completed',
    description:
      'The daemon completes the upload as soon as every part is sent, which may be later. The answer comes at once. `status` is `completed` when the store has put the ' +
      'object together. Safe to repeat, even after completion.',
    body: ref('CompleteSnapshot'),
  }
  app.post('/v1/snapshots/:id/complete', { schema }, async (request, reply): Promise<SnapshotWire> => {
    const urls = valid(completeFromWire(request.body))
    return mutateSnapshot({ request, reply, dependencies }, (context, id) =>
      completeSnapshot(context, id, urls),
    )
  })
}

function removeSnapshot(app: App, dependencies: ApiDependencies): void {
  const schema = {
    tags,
    params,
    querystring: noQuery,
    headers: conditions,
    operationId: 'deleteSnapshot',
    summary: 'Delete a snapshot',
    description:
      'Removes its record and its URLs, whatever its status; the host then removes its staged parts. Without a deletion, the ' +
      'parts of a completed snapshot stay staged: delete it when you have its object. The object stays in the store; an upload that is not completed must be aborted there. If there is no such snapshot, the answer ' +
      'is 204 all the same.',
    response: {
      204: {
        type: 'null',
        description: 'The snapshot does not exist, or no longer.',
        headers: requestIdHeader,
      },
      ...problems('state_unwritable', 'precondition_failed', ...BODY_CODES),
    },
  }
  app.delete('/v1/snapshots/:id', { schema }, async (request, reply) => {
    const context = contextOf(dependencies)
    const id = request.params.id as SnapshotId
    const before = context.store.snapshots.get(id)
    if (before !== undefined) checkPreconditions(request.headers, before, 'snapshot')
    request.vmId = before?.vmId
    request.audited = {
      before: versionsOf(before),
      ...(before === undefined ? { outcome: 'unchanged' } : {}),
    }
    request.operationId = deleteSnapshot(context, id)
    await context.store.flushed()
    return reply.code(204).send()
  })
}

function valid<T>(read: Result<T, readonly Complaint[]>): T {
  if (read.ok) return read.value
  throw invalidRequest('body', read.error)
}
