import { given } from '../../../lib/given.ts'
import { Type } from 'typebox'
import { closed } from '../../../lib/schema-check.ts'
import { limits } from '../../../config/limits.ts'
import { ref } from '../../wire/named.ts'
import { snapshotToWire } from '../../wire/snapshot-to-wire.ts'
import { SNAPSHOT_STATUSES } from '../../wire/snapshot.ts'
import { vmIdSchema } from '../../wire/vm.ts'
import { noQuery, problems, requestIdHeader } from '../../listener/answers.ts'
import { conditionalAnswers, conditionalHeaders, readConditionally } from './preconditions.ts'
import { afterCursor, pageMembers, pageOf } from './page.ts'
import { params, sightOf, snapshotAnswer, snapshotOf, tags } from './snapshot-parts.ts'
import { contextOf } from './vm-parts.ts'
import type { SnapshotId } from '../../../core/snapshots/record.ts'
import type { VmId } from '../../../core/ids.ts'
import type { SnapshotListWire } from '../../wire/snapshot.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves reads of snapshots: one, or a page of them. */
export function snapshotReadRoutes(app: App, dependencies: ApiDependencies): void {
  listSnapshots(app, dependencies)
  getSnapshot(app, dependencies)
}

function listSnapshots(app: App, dependencies: ApiDependencies): void {
  const schema = {
    operationId: 'listSnapshots',
    tags,
    summary: 'List snapshots',
    description: 'Ordered by id, a page at a time. Ended snapshots are listed until they are deleted.',
    querystring: Type.Object(
      {
        ...pageMembers,
        status: Type.Optional(
          Type.Enum(SNAPSHOT_STATUSES, { type: 'string', description: 'Only snapshots with this status.' }),
        ),
        vm_id: Type.Optional({
          ...vmIdSchema,
          description: 'Only snapshots of this VM, even if the VM is gone.',
        }),
      },
      closed,
    ),
    response: {
      200: { ...ref('SnapshotList'), description: 'A page of snapshots.', headers: requestIdHeader },
      ...problems(),
    },
  }
  app.get('/v1/snapshots', { schema }, async (request): Promise<SnapshotListWire> => {
    const { limit = limits.listItemsDefault, cursor, status, vm_id: vmId } = request.query
    const after = afterCursor('snapshots', cursor)
    const context = contextOf(dependencies)
    // The record beyond the limit shows whether there is a next page.
    const records = context.store.snapshots.list({
      limit: limit + 1,
      ...given({ after: after as SnapshotId | undefined, status, vmId: vmId as VmId | undefined }),
    })
    const sights = records.map((record) => sightOf(context, record))
    // Answer only what is on the disk.
    await context.store.flushed()
    return pageOf('snapshots', sights, { limit, show: (sight) => snapshotToWire(sight) })
  })
}

function getSnapshot(app: App, dependencies: ApiDependencies): void {
  app.addHook('preClose', async () => dependencies.snapshotWaits.end())
  const schema = {
    operationId: 'getSnapshot',
    tags,
    summary: 'Get a snapshot',
    description:
      'The progress of a snapshot, and what it waits for. With `If-None-Match` and `Prefer: wait=N` it is a long poll: the answer comes ' +
      'when the snapshot has changed, or as 304 after N seconds.',
    params,
    querystring: noQuery,
    headers: conditionalHeaders('the snapshot'),
    response: {
      ...conditionalAnswers(snapshotAnswer('The snapshot.'), 'The snapshot'),
      ...problems('not_found'),
    },
  }
  app.get('/v1/snapshots/:id', { schema }, async (request, reply) => {
    const id = request.params.id as SnapshotId
    const context = contextOf(dependencies)
    const sight = await readConditionally(request, reply, {
      id,
      waits: dependencies.snapshotWaits,
      find: () => snapshotOf(context, id),
      flushed: () => context.store.flushed(),
    })
    request.vmId = (sight?.record ?? context.store.snapshots.get(id))?.vmId
    return sight === undefined ? reply.code(304).send() : snapshotToWire(sight)
  })
}
