import { answered, answeredUnlessEmpty } from '../../client/api-client.ts'
import { allPages, showList, eachNamed } from '../several.ts'
import { showMib } from '../../lib/shown-units.ts'
import { listVms } from '../vm/list.ts'
import { CtlError, usageError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { ago } from '../text.ts'
import type { ApiClient, Image, Vm } from '../../client/api-client.ts'
import type { Command, Context } from '../command.ts'

/** Characters of a digest that are shown, enough to distinguish images; `image rm` takes them. */
const DIGEST_SHOWN = 12

const HEAD = ['IMAGE', 'SIZE', 'PART', 'LAST USED', 'FETCHED', 'VMS']

/** Number of VMs that are named per image; the others are counted. */
const NAMED_VMS = 3

export const imageListCommand: Command = {
  words: ['image', 'ls'],
  summary: 'list images',
  description:
    'Lists every image in the storage pool, by the first characters of its SHA-256. VMS names the VMs that are made from ' +
    'it, and PART is its part in them. LAST USED is when a VM was last created from it or deleted.',
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
      none: () => 'no images; the host fetches them when a VM needs them',
    })
  },
}

const listImages = (client: ApiClient): Promise<Image[]> =>
  allPages((query) => answered(client.GET('/v1/images', { params: { query } })))

/** The uses of an image. */
type Uses = { readonly parts: Set<string>; readonly vms: Set<string> }

function usesIn(vms: readonly Vm[]): ReadonlyMap<string, Uses> {
  const found = new Map<string, Uses>()
  for (const { id, desired } of vms) {
    const { rootfs, kernel, initrd } = desired.image
    for (const [part, image] of Object.entries({ rootfs, kernel, initrd })) {
      if (image === undefined) continue
      const { sha256 } = image
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
  return [
    sha256.slice(0, DIGEST_SHOWN),
    showMib(size),
    [...(uses?.parts ?? [])].join(', '),
    used === undefined ? '' : ago(used, nowMs),
    removing === true ? 'being removed' : ago(fetched, nowMs),
    namesIn(uses?.vms ?? []),
  ]
}

const DIGEST_CHARACTERS = 64
const PREFIX_CHARACTERS_MIN = 8

export const imageRemoveCommand: Command = {
  words: ['image', 'rm'],
  summary: 'remove images that no VM is made from',
  description:
    'Name an image by its SHA-256, or by at least the first 8 characters of it. An image that a VM is made from is ' +
    'refused. The host removes the image as soon as it can; vmhostctl image ls shows it until then. An image that is not ' +
    "used for storage.image_idle_hours of the host's configuration is removed without a request.",
  operand: { placeholder: 'SHA256', many: true, completes: 'image' },
  options: [],
  examples: [
    ['9f86d081884c', 'the one that vmhostctl image ls shows with this name'],
    ['9f86d081884c 60303ae22b99', 'both'],
  ],
  run: async (context) => {
    for (const name of context.given.operands) {
      const wrong = refuseName(name)
      if (wrong !== undefined) return context.fail(wrong, name)
    }
    return eachNamed(context, async (name) => {
      const sha256 = await digestOf(context, name)
      const deleting = context.client().DELETE('/v1/images/{sha256}', { params: { path: { sha256 } } })
      const { data = { sha256, gone: true } } = await answeredUnlessEmpty(deleting)
      context.print(
        data,
        () => `${sha256.slice(0, DIGEST_SHOWN)}: ${'gone' in data ? 'did not exist' : 'is being removed'}`,
      )
      return exitStatus.done
    })
  },
}

/** Returns a usage error for a name that is not a digest or the beginning of one. */
function refuseName(name: string): CtlError | undefined {
  const isDigits = /^[0-9a-f]+$/i.test(name)
  if (isDigits && name.length >= PREFIX_CHARACTERS_MIN && name.length <= DIGEST_CHARACTERS) return undefined
  return usageError(
    `${name} names no image`,
    `write its SHA-256, or at least the first ${PREFIX_CHARACTERS_MIN} characters of it`,
  )
}

/**
 * Returns the digest that a name means. Takes a whole digest as it is, so a repeated removal is safe. Throws if the
 * beginning of a digest matches no image, or several.
 */
async function digestOf({ client }: Context, name: string): Promise<string> {
  const digest = name.toLowerCase()
  if (digest.length === DIGEST_CHARACTERS) return digest
  const found = (await listImages(client())).filter(({ sha256 }) => sha256.startsWith(digest))
  const [only, ...others] = found
  if (only !== undefined && others.length === 0) return only.sha256
  throw new CtlError(only === undefined ? `there is no image ${name}` : `${name} names several images`, {
    code: only === undefined ? 'not_found' : 'ambiguous',
    status: exitStatus.failed,
    advice:
      only === undefined ? ['vmhostctl image ls shows those there are'] : found.map(({ sha256 }) => sha256),
  })
}
