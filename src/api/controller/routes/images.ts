import { Type } from 'typebox'
import { closed } from '../../../lib/schema-check.ts'
import { limits } from '../../../config/limits.ts'
import { imageToWire } from '../../wire/images.ts'
import { ref } from '../../wire/named.ts'
import { sha256Schema } from '../../wire/vm.ts'
import { Refused } from '../../listener/refused.ts'
import {
  BODY_CODES,
  goneAnswer,
  locationHeader,
  noQuery,
  problems,
  requestIdHeader,
} from '../../listener/answers.ts'
import { afterCursor, pageMembers, pageOf } from './page.ts'
import { contextOf } from './vm-parts.ts'
import { versionsOf } from '../versions.ts'
import type { Sha256 } from '../../../core/ids.ts'
import type { ImageListWire, ImageRemovalWire } from '../../wire/images.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

const tags = ['Images']
const params = Type.Object({ sha256: sha256Schema }, closed)

/** Serves the images of the pool. Creating a VM adds its images. */
export function imageRoutes(app: App, dependencies: ApiDependencies): void {
  listImages(app, dependencies)
  deleteImage(app, dependencies)
}

function listImages(app: App, dependencies: ApiDependencies): void {
  const schema = {
    operationId: 'listImages',
    tags,
    summary: 'List images',
    description:
      'The images in the storage pool now, ordered by digest, a page at a time. An image that is still being fetched ' +
      'is not listed.',
    querystring: Type.Object(pageMembers, closed),
    response: {
      200: { ...ref('ImageList'), description: 'A page of images.', headers: requestIdHeader },
      ...problems('storage_inspection_failed'),
    },
  }
  app.get('/v1/images', { schema }, async (request): Promise<ImageListWire> => {
    const { limit = limits.listItemsDefault, cursor } = request.query
    const after = afterCursor('images', cursor)
    const { store } = contextOf(dependencies)
    const images = (await dependencies.images.list())
      .map((image) => ({ id: image.sha256, image }))
      .filter(({ id }) => after === undefined || id > after)
    // Answer only what is on the disk.
    await store.flushed()
    return pageOf('images', images, { limit, show: ({ image }) => imageToWire(image) })
  })
}

function deleteImage(app: App, dependencies: ApiDependencies): void {
  const schema = {
    operationId: 'deleteImage',
    tags,
    summary: 'Delete an image',
    description:
      'Stores that the image must be removed from the pool; the host follows, even if its pool is not reachable now. Refused while a VM ' +
      'uses it, including a stopped or sleeping one. A VM that is created with it before it is gone keeps it. Images that no ' +
      'VM has used for `storage.image_idle_hours` are removed automatically. Safe to repeat: if the host knows that there is no such image, ' +
      'the answer is 204. It does not look into its pool for that.',
    params,
    querystring: noQuery,
    headers: Type.Object({
      'if-match': Type.Optional(
        Type.String({ description: 'An image never changes and has no ETag: only `*` is possible.' }),
      ),
    }),
    response: {
      200: {
        ...ref('ImageRemoval'),
        description: 'The deletion was stored before, and nothing has changed. The image is not gone yet.',
        headers: requestIdHeader,
      },
      202: {
        ...ref('ImageRemoval'),
        description: 'Stored. The image is gone when the list of images no longer has it.',
        headers: { ...requestIdHeader, ...locationHeader },
      },
      204: goneAnswer('image'),
      ...problems('state_unwritable', 'precondition_failed', ...BODY_CODES, 'image_in_use'),
    },
  }
  app.delete('/v1/images/:sha256', { schema }, async (request, reply) => {
    const { store, newOperationId } = contextOf(dependencies)
    const { sha256 } = request.params
    if ((request.headers['if-match'] ?? '*') !== '*')
      throw new Refused({ code: 'precondition_failed', detail: 'an image has no ETag: leave If-Match out' })
    const operationId = newOperationId()
    const requested = dependencies.images.requestRemoval(sha256 as Sha256, operationId)
    if (!requested.ok) throw new Refused(requested.error)
    await store.flushed()
    if (requested.value !== 'removing')
      request.audited = { before: versionsOf(undefined), outcome: 'unchanged' }
    if (requested.value === 'gone') return reply.code(204).send()
    const stored: ImageRemovalWire = { sha256, removing: true }
    if (requested.value === 'recorded') return reply.code(200).send(stored)
    request.operationId = operationId
    reply.code(202).header('location', '/v1/images')
    return { ...stored, operation_id: operationId }
  })
}
