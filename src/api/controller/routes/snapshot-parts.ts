import { Type } from 'typebox'
import { existingSnapshot } from '../../../commands/snapshots.ts'
import { ref } from '../../wire/named.ts'
import { snapshotIdSchema } from '../../wire/snapshot.ts'
import { Refused } from '../refused.ts'
import { requestIdHeader } from './answers.ts'
import { closed } from './vm-parts.ts'
import type { CommandContext } from '../../../commands/context.ts'
import type { SnapshotId, SnapshotRecord } from '../../../core/snapshot/record.ts'
import type { SnapshotSight } from '../../wire/snapshot-to-wire.ts'

export const SNAPSHOTS_DESCRIPTION = `The disk of a VM as an image in an object store, while the guest goes on. The host has no credentials of that
store: the controller signs a URL for each request.

1. Begin a multipart upload in the store (CreateMultipartUpload), and sign a URL for each part (UploadPart), for its end
   (CompleteMultipartUpload) and, to be sure of a lost answer, for HeadObject. Have them expire late: hours, not minutes.
2. \`PUT /v1/snapshots/{id}\` with them. How many parts there will be is known only when all is compressed; at most the size of the
   disk divided by the size of a part, and one more. More URLs than one request can hold follow by \`PUT …/upload\`.
3. The disk is captured: the guest stands still for milliseconds (\`paused_ms\`), with its file systems flushed where an agent in it
   can do that (\`consistency\`). From \`captured_at\` on nothing that the guest writes is in the snapshot.
4. Parts are compressed, and sent as they are made. Watch by long polls of \`GET /v1/snapshots/{id}\`. Whatever passes by itself is
   tried again; \`error\` tells of it.
5. Where URLs are missing or have expired, \`needs_urls\` is true and \`lacking_urls\` says for what: \`PUT …/upload\`. Parts that were sent
   are never sent again. One that \`failed\` and is \`resumable\` goes on in the same way.
6. Once every part is sent the upload is completed with the \`complete_url\`, or waits in the phase \`awaiting_completion\` for
   \`POST …/complete\`. \`completed\` says that the object is there.
7. The object is zstd, in independent frames with a seek table. A VM is created from it with its URL and the \`sha256\` of the snapshot.
   \`DELETE /v1/snapshots/{id}\` when you have noted that; the object stays.

Every request is safe to repeat, also at the same time and after completion. A snapshot survives the daemon and the host. To give one
up, DELETE it and abort the upload in the store: without credentials the host cannot.`

export const tags = ['Snapshots']
export const params = Type.Object({ id: snapshotIdSchema }, closed)

const headers = {
  ...requestIdHeader,
  ETag: { type: 'string', description: 'The revision of the snapshot, in quotes.' },
}

export const snapshotAnswer = (description: string) => ({ ...ref('Snapshot'), description, headers })

/** Returns the snapshot as it is now. Refuses if there is none. */
export function snapshotOf(
  context: CommandContext,
  id: SnapshotId,
): SnapshotSight & Pick<SnapshotRecord, 'id' | 'revision'> {
  const found = existingSnapshot(context, id)
  if (!found.ok) throw new Refused(found.error)
  return sightOf(context, found.value)
}

/** Combines a record that was just read with the tally of its parts. */
export const sightOf = (
  { store }: CommandContext,
  record: SnapshotRecord,
): SnapshotSight & Pick<SnapshotRecord, 'id' | 'revision'> => ({
  id: record.id,
  revision: record.revision,
  record,
  tally: store.snapshots.tally(record),
})
