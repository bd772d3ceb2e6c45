import { Type } from 'typebox'
import { closed } from '../../lib/schema-check.ts'
import { limits } from '../../config/limits.ts'
import { exampleCompleteSnapshot, exampleSnapshotUrls, exampleStartSnapshot } from './examples.ts'
import { vmIdSchema } from './vm.ts'
import { STORE_URL_PATTERN } from './values.ts'
import type { Static } from 'typebox'

const url = (description: string) =>
  Type.String({ pattern: STORE_URL_PATTERN, maxLength: limits.urlBytesMax, description })

const KEPT = 'Stored until the snapshot ends; never returned, never logged.'

const urlMembers = {
  part_urls: Type.Array(url('A signed URL for UploadPart (PUT) of one part.'), {
    maxItems: limits.partUrlsMax,
    description:
      `For consecutive parts, one URL each. There may be fewer URLs than parts. A request has at most ${limits.partUrlsMax}, and its body at most ` +
      `${limits.bodyBytesMax / 1024 / 1024} MiB, which fewer URLs of over 1 KiB each fill up; hand over the others with \`first_part\` by \`PUT …/upload\`. ${KEPT}`,
  }),
  complete_url: Type.Optional(
    url(
      'A signed URL for CompleteMultipartUpload (POST). With it, the daemon completes the upload as soon as every part is sent.',
    ),
  ),
  head_url: Type.Optional(
    url(
      'A signed URL for HeadObject (HEAD) of the finished object. If the answer to a completion was lost, the daemon checks with it whether the object exists.',
    ),
  ),
}

export const startSnapshotSchema = Type.Object(
  {
    vm_id: vmIdSchema,
    upload: Type.Object(
      {
        part_size_mib: Type.Integer({
          minimum: limits.partMibMin,
          maximum: limits.partMibMax,
          description:
            `MiB of the object in each part. A store accepts at most ${limits.partsMax} parts: choose at least the size of the disk in MiB / ${limits.partsMax}. ` +
            'A part must fit into the staging of the host, and a failed part is sent again as a whole: 16 to 128 suit most hosts.',
          examples: [64],
        }),
        ...urlMembers,
      },
      {
        ...closed,
        description: 'The multipart upload, which the controller must have begun (CreateMultipartUpload).',
      },
    ),
  },
  {
    ...closed,
    description: 'A snapshot to take. The same request again returns the existing one.',
    examples: [exampleStartSnapshot],
  },
)

export const snapshotUrlsSchema = Type.Object(
  {
    first_part: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: limits.partsMax,
        default: 1,
        description: 'The part number of the first of `part_urls`.',
      }),
    ),
    ...urlMembers,
  },
  {
    ...closed,
    description:
      'More URLs of the same multipart upload, or fresh ones. They replace those for the same parts; the others stay. URLs for parts that were sent are ignored.',
    examples: [exampleSnapshotUrls],
  },
)

export const completeSnapshotSchema = Type.Object(
  {
    complete_url: url('A signed URL for CompleteMultipartUpload (POST).'),
    head_url: urlMembers.head_url,
  },
  { ...closed, examples: [exampleCompleteSnapshot] },
)

export type StartSnapshotWire = Static<typeof startSnapshotSchema>
export type SnapshotUrlsWire = Static<typeof snapshotUrlsSchema>
export type CompleteSnapshotWire = Static<typeof completeSnapshotSchema>
