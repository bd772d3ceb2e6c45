import { Type } from 'typebox'
import { limits } from '../../config/limits.ts'
import { exampleCompleteSnapshot, exampleSnapshotUrls, exampleStartSnapshot } from './snapshot-examples.ts'
import { vmIdSchema } from './vm.ts'
import { STORE_URL_PATTERN } from './words.ts'
import type { Static } from 'typebox'

const closed = { additionalProperties: false } as const

const url = (description: string) =>
  Type.String({ pattern: STORE_URL_PATTERN, maxLength: limits.urlBytesMax, description })

const KEPT = 'Kept until the snapshot ends; never returned, never logged.'

const urlMembers = {
  part_urls: Type.Array(url('A signed URL for UploadPart (PUT) of one part.'), {
    maxItems: limits.partsMax,
    description: `For parts in a row, each of another part number. They may be fewer than there will be parts. ${KEPT}`,
  }),
  complete_url: Type.Optional(
    url(
      'A signed URL for CompleteMultipartUpload (POST). With it the upload is completed as soon as all of it is sent.',
    ),
  ),
  head_url: Type.Optional(
    url(
      'A signed URL for HeadObject (HEAD) of the finished object: by it the daemon learns whether a completion whose answer was lost was done.',
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
            `MiB of the object in each part. A store takes at most ${limits.partsMax} parts: choose at least the size of the disk in MiB / ${limits.partsMax}. ` +
            'A part must fit into the staging of the host, and is what is sent again after a failure: 16 to 128 suit most.',
          examples: [64],
        }),
        ...urlMembers,
      },
      {
        ...closed,
        description: 'The multipart upload, which the controller has begun (CreateMultipartUpload).',
      },
    ),
  },
  {
    ...closed,
    description: 'A snapshot to take. The same request again answers the one that is there.',
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
        description: 'The number of the part that the first of `part_urls` is for.',
      }),
    ),
    ...urlMembers,
  },
  {
    ...closed,
    description:
      'More URLs, or fresh ones. They replace those for the same parts; the others stay. Those for parts that were sent are ignored.',
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
