import { answered } from '../../client/api-client.ts'
import { allPages, showList } from '../several.ts'
import { showMib, showSpan } from '../units.ts'
import { listVms } from '../vm/list.ts'
import type { ApiClient, Image, Vm } from '../../client/api-client.ts'
import type { Command } from '../command.ts'

/** Characters of a digest that are shown, enough to distinguish images; `image rm` takes them. */
export const DIGEST_SHOWN = 12

const HEAD = ['IMAGE', 'SIZE', 'PART', 'LAST USED', 'FETCHED', 'VMS']

/** Number of VMs that are named per image; the others are counted. */
const NAMED_VMS = 3

export const imageListCommand: Command = {
  words: ['image', 'ls'],
  summary: 'list images',
  description:
    'Every image in the storage pool, by the beginning of its SHA-256. PART is what it is in the VMs that are made of it, and VMS ' +
    'names these; LAST USED is when one last was created of it or deleted.',
  options: [],
  examples: [
    ['', 'all of them'],
    ["--json | jq -r '.items[] | select(.use_count == 0) | .sha256'", 'those that no VM uses, for a program'],
  ],
  run: async (context) => {
    const client = context.client()
    return showList(context, {
      ...{ items: await listImages(client), head: HEAD },
      rowsOf: async (images) => {
        const uses = usesIn(await listVms(client))
        const nowMs = context.shell.nowMs()
        return images.map((image) => rowOf(image, uses.get(image.sha256), nowMs))
      },
      none: () => 'no images; they come when a VM needs them',
    })
  },
}

export const listImages = (client: ApiClient): Promise<Image[]> =>
  allPages((query) => answered(client.GET('/v1/images', { params: { query } })))

/** The uses of an image. */
type Uses = { readonly parts: Set<string>; readonly vms: Set<string> }

function usesIn(vms: readonly Vm[]): ReadonlyMap<string, Uses> {
  const found = new Map<string, Uses>()
  for (const { id, desired } of vms) {
    const { rootfs_sha256: rootfs, kernel_sha256: kernel, initrd_sha256: initrd } = desired.image
    for (const [part, sha256] of Object.entries({ rootfs, kernel, initrd })) {
      if (sha256 === undefined) continue
      const uses = found.get(sha256) ?? { parts: new Set(), vms: new Set() }
      uses.parts.add(part)
      uses.vms.add(id)
      found.set(sha256, uses)
    }
  }
  return found
}

function namesIn(vms: Iterable<string>): string {
  const names = [...vms]
  const more = names.length - NAMED_VMS
  const named = names.slice(0, NAMED_VMS).join(', ')
  return more > 0 ? `${named} and ${more} more` : named
}

function rowOf(image: Image, uses: Uses | undefined, nowMs: number): string[] {
  const { sha256, size_mib: size, last_used_at: used, fetched_at: fetched, removing } = image
  const ago = (time: string): string => `${showSpan(nowMs - Date.parse(time))} ago`
  return [
    sha256.slice(0, DIGEST_SHOWN),
    showMib(size),
    [...(uses?.parts ?? [])].join(', '),
    used === undefined ? '' : ago(used),
    removing === true ? 'being removed' : ago(fetched),
    namesIn(uses?.vms ?? []),
  ]
}
