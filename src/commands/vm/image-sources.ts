import { imagesOf } from '../../core/desired.ts'
import { err } from '../../lib/result.ts'
import { refuseImageUrls } from '../outbound/check-urls.ts'
import type { Disk } from '../../core/desired.ts'
import type { Rejection } from '../../core/errors.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { CreateVm } from '../../core/vm/create.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/**
 * Stores the URLs of images that the VM still needs if they differ from those that are stored, and lets the worker try
 * them. Returns why they cannot be used; `under` is their place in the request.
 */
export function refreshSources(
  context: CommandContext,
  { id, desired }: VmRecord,
  { images, under }: { readonly images: CreateVm['image']['images']; readonly under: string },
): Rejection | undefined {
  const { vms } = context.store
  const stored = vms.inputs(id).sources
  const needed = new Set(imagesOf(desired.image).map(({ sha256 }) => sha256))
  const fresh = images.some(
    ({ sha256, source }) => needed.has(sha256) && stored.get(sha256)?.url.equals(source.url) !== true,
  )
  if (!fresh) return undefined
  const refusal = refuseImageUrls(context, images, under)
  if (refusal !== undefined) return refusal
  vms.addSources(id, new Map(images.map(({ sha256, source }) => [sha256, source])))
  context.poke(id, 'fresh image URLs')
  return undefined
}

/**
 * Lets a request that changed nothing bring fresh URLs for its images. Returns its result, or why they cannot be used.
 */
export function withFreshSources(
  context: CommandContext,
  result: CommandResult,
  images: CreateVm['image']['images'],
): CommandResult {
  if (!result.ok || result.value.changed) return result
  const refusal = refreshSources(context, result.value.record, { images, under: '' })
  return refusal === undefined ? result : err(refusal)
}

/**
 * Refuses a disk that is smaller than its image. Nothing is known yet about an image that was never in the pool.
 * `pointer`: the place of the size in the request, if it has it.
 */
export function refuseSmallDisk(
  { capacity }: CommandContext,
  { sizeMib }: Disk,
  { sha256, pointer }: { readonly sha256: Sha256; readonly pointer?: string },
): Rejection | undefined {
  const imageMib = capacity.imageMib(sha256)
  if (imageMib === undefined || imageMib <= sizeMib) return undefined
  const detail = `the disk has ${sizeMib} MiB and its image ${imageMib} MiB: ask for a disk of that or more`
  if (pointer === undefined) return { code: 'disk_too_small', detail }
  const errors = [{ pointer, code: 'out_of_range', detail: `must be at least ${imageMib}` }]
  return { code: 'disk_too_small', detail, errors }
}
