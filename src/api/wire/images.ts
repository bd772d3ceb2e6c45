import { Type } from 'typebox'
import { nextPageMembers, time, timeSchema } from './values.ts'
import { sha256Schema } from './vm.ts'
import { mibUp } from '../../lib/byte-units.ts'
import type { Static } from 'typebox'
import type { ShelvedImage } from '../../owners/images/image-shelf.ts'

const exampleImage = {
  sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  size_mib: 700,
  use_count: 2,
  last_used_at: '2030-01-01T12:00:00.000Z',
  fetched_at: '2030-01-01T11:58:12.000Z',
}

const exampleOperation = 'op-01b21dd2138040a1b2c3d4e5'

export const imageSchema = Type.Object(
  {
    sha256: {
      ...sha256Schema,
      description:
        'Digest of the image as VMs have it. If the image came compressed, this is the digest of the unpacked one.',
    },
    size_mib: Type.Integer({ minimum: 0, description: 'MiB. Length of the image, rounded up.' }),
    use_count: Type.Integer({
      minimum: 0,
      description: 'VMs on this host that use it, including those under deletion.',
    }),
    last_used_at: Type.Optional({
      ...timeSchema,
      description: 'When a VM that uses it was last created or deleted. Absent if there never was one.',
    }),
    fetched_at: { ...timeSchema, description: 'When it was added to the pool.' },
    removing: Type.Optional(
      Type.Literal(true, {
        description:
          'Its deletion is stored, and the host removes it as soon as it can. A VM that is created with it before then keeps it.',
      }),
    ),
  },
  {
    description: 'An image in the pool. VMs that use it share its blocks.',
    examples: [exampleImage],
  },
)

export const imageRemovalSchema = Type.Object(
  {
    sha256: { ...sha256Schema, description: 'Digest of the deleted image.' },
    removing: Type.Literal(true),
    operation_id: Type.Optional(
      Type.String({
        description:
          'The request, as in the audit trail; lines about the removal have the digest. Earlier versions do not answer it.',
        examples: [exampleOperation],
      }),
    ),
  },
  {
    description:
      'A stored deletion of an image. It is complete when the list of images no longer has the image.',
    examples: [{ sha256: exampleImage.sha256, removing: true, operation_id: exampleOperation }],
  },
)

export const imageListSchema = Type.Object({
  items: Type.Array(Type.Unsafe<ImageWire>({ $ref: 'Image#' }), {
    description: 'Ordered by digest.',
  }),
  ...nextPageMembers,
})

export type ImageWire = Static<typeof imageSchema>
export type ImageRemovalWire = Static<typeof imageRemovalSchema>
export type ImageListWire = Static<typeof imageListSchema>

/** The only translation of an image to a response. */
export const imageToWire = (image: ShelvedImage): ImageWire => ({
  sha256: image.sha256,
  size_mib: mibUp(image.sizeBytes),
  use_count: image.useCount,
  ...(image.lastUsedAtMs === undefined ? {} : { last_used_at: time(image.lastUsedAtMs) }),
  fetched_at: time(image.fetchedAtMs),
  ...(image.isRemoving === true ? { removing: true } : {}),
})
