import { Type } from 'typebox'
import { closed } from '../../../lib/schema-check.ts'
import { existingSnapshot } from '../../../commands/snapshots/snapshots.ts'
import { ref } from '../../wire/named.ts'
import { snapshotIdSchema } from '../../wire/snapshot.ts'
import { Refused } from '../../listener/refused.ts'
import { locationHeader, requestIdHeader } from '../../listener/answers.ts'
import type { CommandContext } from '../../../commands/context.ts'
import type { SnapshotId, SnapshotRecord } from '../../../core/snapshots/record.ts'
import type { SnapshotSight } from '../../wire/snapshot-to-wire.ts'

export const SNAPSHOTS_DESCRIPTION = `Copies the disk of a VM as an image to an object store, while the guest goes on. The host has no credentials for that
store: the controller signs a URL for each request.

1. Begin a multipart upload in the store (CreateMultipartUpload), and sign a URL for each part (UploadPart), for its end
   (CompleteMultipartUpload) and, to check after a lost answer, for HeadObject. Let them expire late: hours, not minutes.
2. \`PUT /v1/snapshots/{id}\` with them. The number of parts is known only when the whole disk is compressed. It is at most the size of the
   disk divided by the size of a part, plus one. Send URLs that do not fit into one request by \`PUT …/upload\`.
3. The disk is captured: the guest is paused for milliseconds (\`paused_ms\`), with its file systems flushed if an agent in it
   can do that (\`consistency\`). The snapshot has no writes of the guest after \`captured_at\`.
4. Parts are compressed, and sent as they are made. Watch by long polls of \`GET /v1/snapshots/{id}\`. After a temporary failure the daemon
   tries again, and \`error\` says why.
5. If URLs are missing or have expired, \`needs_urls\` is true and \`lacking_urls\` says which: sign them for the same
   upload, \`PUT …/upload\`. Parts that were sent are never sent again. A snapshot that \`failed\` and is \`resumable\` continues in the same way.
6. Once every part is sent, the daemon completes the upload with the \`complete_url\`, or waits in the phase \`awaiting_completion\` for
   \`POST …/complete\`. \`completed\` means that the store has the object.
7. The object is zstd, in independent frames with a seek table. To create a VM from it, use its URL and the \`sha256\` of the snapshot.
   \`DELETE /v1/snapshots/{id}\` when you have noted that; the object stays.

Every request is safe to repeat, even at the same time and after completion. A snapshot survives restarts of the daemon and of the host. To give one
up, DELETE it and abort the upload in the store: the host cannot, because it has no credentials.`

export const tags = ['Snapshots']
export const params = Type.Object({ id: snapshotIdSchema }, closed)

const headers = {
  ...requestIdHeader,
  ETag: { type: 'string', description: 'The revision of the snapshot, in quotes.' },
}

export const snapshotAnswer = (description: string) => ({ ...ref('Snapshot'), description, headers })

/** The answer to a mutation that was stored. */
export const acceptedSnapshot = (description: string) => ({
  ...snapshotAnswer(description),
  headers: { ...headers, ...locationHeader },
})

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
