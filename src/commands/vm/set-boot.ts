import { isDeepStrictEqual } from 'node:util'
import { given } from '../../lib/given.ts'
import { err, ok } from '../../lib/result.ts'
import { refuseImageUrls } from '../outbound/check-urls.ts'
import { withFreshSources } from './image-sources.ts'
import { isStopped, notStopped, storeDesired } from './store-desired.ts'
import type { Image } from '../../core/desired.ts'
import type { VmId } from '../../core/ids.ts'
import type { BootChange } from '../../core/vm/create.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/**
 * Stores what the guest boots with: kernel, initrd, and what the host appends to its own kernel arguments. The same
 * request again changes nothing, but brings fresh URLs.
 */
export function setBoot(context: CommandContext, id: VmId, change: BootChange): CommandResult {
  const { kernel, initrd } = change
  const images = [
    ...(kernel === undefined ? [] : [{ role: 'kernel', ...kernel } as const]),
    ...(initrd === undefined || initrd === null ? [] : [{ role: 'initrd', ...initrd } as const]),
  ]
  const result = storeDesired(context, id, {
    reason: 'boot',
    inputs: { sources: new Map(images.map(({ sha256, source }) => [sha256, source])) },
    decide: (before) => {
      const { desired } = before
      const image = changedImage(desired.image, change)
      if (isDeepStrictEqual(image, desired.image)) return ok(desired)
      if (!isStopped(before)) return err(notStopped(before, 'Kernel, initrd and kernel arguments'))
      const refusal = refuseImageUrls(context, images, '')
      return refusal === undefined ? ok({ ...desired, image }) : err(refusal)
    },
  })
  return withFreshSources(context, result, images)
}

function changedImage(before: Image, { kernel, initrd, kernelArguments }: BootChange): Image {
  const { initrdSha256: oldInitrd, kernelArguments: oldArguments, bootRevision: revision, ...rest } = before
  const after: Image = {
    ...rest,
    ...given({
      initrdSha256: initrd === undefined ? oldInitrd : initrd?.sha256,
      kernelArguments: kernelArguments === undefined ? oldArguments : (kernelArguments ?? undefined),
    }),
    ...(kernel === undefined ? {} : { kernelSha256: kernel.sha256 }),
  }
  const hasOthers = after.kernelSha256 !== before.kernelSha256 || after.initrdSha256 !== oldInitrd
  return { ...after, ...given({ bootRevision: hasOthers ? (revision ?? 0) + 1 : revision }) }
}
