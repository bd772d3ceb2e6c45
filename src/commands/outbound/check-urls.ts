import { limits } from '../../config/limits.ts'
import { refusedUrl } from '../../core/outbound/outbound-policy.ts'
import { refusedSource } from '../../core/outbound/image-source.ts'
import type { Rejection } from '../../core/errors.ts'
import type { OutboundPolicy } from '../../core/outbound/outbound-policy.ts'
import type { CreateVm } from '../../core/vm/create.ts'
import type { SnapshotUrls } from '../../core/snapshots/record.ts'
import type { CommandContext } from '../context.ts'

/** Returns why these URLs cannot be used to send a snapshot. Each has its place in the request, below `under`. */
export function refuseUrls(policy: OutboundPolicy, urls: SnapshotUrls, under: string): Rejection | undefined {
  const named = [
    ...urls.parts.map((url, index) => [`/part_urls/${index}`, url] as const),
    ...(urls.complete === undefined ? [] : [['/complete_url', urls.complete] as const]),
    ...(urls.head === undefined ? [] : [['/head_url', urls.head] as const]),
  ]
  const errors = named.flatMap(([pointer, url]) => {
    const because = refusedUrl(url, policy)
    if (because === undefined) return []
    return [{ pointer: `${under}${pointer}`, code: 'not_allowed', detail: `it ${because}` }]
  })
  return refusalOf(errors)
}

/** Returns why the images of a VM cannot come from these URLs. Each has its place in the request, below `under`. */
export function refuseImageUrls(
  { outbound, localImagesDirectory }: Pick<CommandContext, 'outbound' | 'localImagesDirectory'>,
  images: CreateVm['image']['images'],
  under: string,
): Rejection | undefined {
  const errors = images.flatMap(({ role, source }) => {
    const because = refusedSource(source.url, outbound, localImagesDirectory)
    if (because === undefined) return []
    return [{ pointer: `${under}/${role}/url`, code: 'not_allowed', detail: `it ${because}` }]
  })
  return refusalOf(errors)
}

function refusalOf(errors: NonNullable<Rejection['errors']>): Rejection | undefined {
  const [first] = errors
  if (first === undefined) return undefined
  return {
    code: 'url_not_allowed',
    detail: `${first.pointer.slice(1)}: ${first.detail}`,
    errors: errors.slice(0, limits.findingsShown),
  }
}
