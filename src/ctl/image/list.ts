import { answered } from '../../client/api-client.ts'
import { exitStatus } from '../exit-status.ts'
import { renderTable } from '../text.ts'
import { showMib, showSpan } from '../units.ts'
import type { ApiClient, Image } from '../../client/api-client.ts'
import type { Command } from '../command.ts'

/** So much of a digest tells images apart, for people; `image rm` takes it. */
export const DIGEST_SHOWN = 12

const HEAD = ['IMAGE', 'SIZE', 'VMS', 'LAST USED', 'FETCHED']

export const imageListCommand: Command = {
  words: ['image', 'ls'],
  summary: 'list images',
  description:
    'Every image in the storage pool, by the beginning of its SHA-256. VMS is how many are made of it; LAST USED is when one last ' +
    'was created of it or deleted.',
  options: [],
  examples: [
    ['', 'all of them'],
    [
      "--json | jq -r '.items[] | select(.use_count == 0) | .sha256'",
      'those that nobody uses, for a program',
    ],
  ],
  run: async (context) => {
    const images = await listImages(context.client())
    const { stdout: sink, nowMs } = context.shell
    if (context.json) context.answer({ items: images })
    else if (images.length === 0) context.say('no images; they come when a VM needs them')
    else {
      const rows = images.map((image) => rowOf(image, nowMs()))
      sink.write(renderTable(HEAD, rows, { sink, paint: context.paint }))
    }
    return exitStatus.done
  },
}

/** All pages of the list. */
export async function listImages(client: ApiClient): Promise<Image[]> {
  const images: Image[] = []
  let query: { cursor?: string } = {}
  for (;;) {
    const { data } = await answered(client.GET('/v1/images', { params: { query } }))
    images.push(...data.items)
    if (data.next_cursor === undefined) return images
    query = { cursor: data.next_cursor }
  }
}

function rowOf(image: Image, nowMs: number): string[] {
  const { sha256, size_mib: size, use_count: uses, last_used_at: used, fetched_at: fetched, removing } = image
  const ago = (time: string): string => `${showSpan(nowMs - Date.parse(time))} ago`
  return [
    sha256.slice(0, DIGEST_SHOWN),
    showMib(size),
    String(uses),
    used === undefined ? '' : ago(used),
    removing === true ? 'being removed' : ago(fetched),
  ]
}
