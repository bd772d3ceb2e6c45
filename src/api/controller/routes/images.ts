import { Type } from 'typebox'
import { limits } from '../../../config/limits.ts'
import { imageToWire } from '../../wire/images.ts'
import { ref } from '../../wire/named.ts'
import { sha256Schema } from '../../wire/vm.ts'
import { Refused } from '../refused.ts'
import { problems, requestIdHeader } from './answers.ts'
import { afterCursor, pageMembers, pageOf } from './page.ts'
import { closed, contextOf, noQuery } from './vm-parts.ts'
import type { Sha256 } from '../../../core/vm/ids.ts'
import type { ImageListWire } from '../../wire/images.ts'
import type { App } from '../app.ts'
import type { ControllerRooms } from '../rooms.ts'

const tags = ['Images']
const params = Type.Object({ sha256: sha256Schema }, closed)

/** The images of the pool. They come by creating VMs. */
export function imageRoutes(app: App, rooms: ControllerRooms): void {
  listImages(app, rooms)
  deleteImage(app, rooms)
}

function listImages(app: App, rooms: ControllerRooms): void {
  const schema = {
    operationId: 'listImages',
    tags,
    summary: 'List images',
    description:
      'What lies in the storage pool now, in the order of the digests, a page at a time. An image that is still being fetched ' +
      'is not listed.',
    querystring: Type.Object(pageMembers, closed),
    response: {
      200: { ...ref('ImageList'), description: 'A page of images.', headers: requestIdHeader },
      ...problems('starting_up', 'storage_inspection_failed'),
    },
  }
  app.get('/v1/images', { schema }, async (request): Promise<ImageListWire> => {
    const { limit = limits.listItemsDefault, cursor } = request.query
    const after = afterCursor('images', cursor)
    const { store } = contextOf(rooms)
    const images = (await rooms.images.list())
      .map((image) => ({ id: image.sha256, image }))
      .filter(({ id }) => after === undefined || id > after)
    // What is shown is on the disk.
    await store.flushed()
    return pageOf('images', images, { limit, show: ({ image }) => imageToWire(image) })
  })
}

function deleteImage(app: App, rooms: ControllerRooms): void {
  const schema = {
    operationId: 'deleteImage',
    tags,
    summary: 'Delete an image',
    description:
      'Removes it from the pool. Refused while a VM is made of it, one that is stopped or sleeps included. Images that nobody has used ' +
      'for `storage.image_idle_hours` go by themselves. Where there is no such image the answer is 204 all the same.',
    params,
    querystring: noQuery,
    response: {
      204: { type: 'null', description: 'There is no such image any more.', headers: requestIdHeader },
      ...problems(
        'starting_up',
        'image_in_use',
        'storage_inspection_failed',
        'storage_failed',
        'storage_read_only',
      ),
    },
  }
  app.delete('/v1/images/:sha256', { schema }, async (request, reply) => {
    const { store } = contextOf(rooms)
    const removed = await rooms.images.remove(request.params.sha256 as Sha256)
    if (!removed.ok) throw new Refused(removed.error)
    await store.flushed()
    return reply.code(204).send()
  })
}
