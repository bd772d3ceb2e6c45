import { nextInstance } from '../../core/desired.ts'
import { owesRebuild } from '../../core/vm/record.ts'
import { err, ok } from '../../lib/result.ts'
import { refuseImageUrls } from '../outbound/check-urls.ts'
import { refuseSmallDisk, withFreshSources } from './image-sources.ts'
import { isStopped, notStopped, refuseProtected, storeDesired } from './store-desired.ts'
import type { Rejection } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import type { SourcedImage } from '../../core/vm/create.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/**
 * Stores that the VM gets a new root disk from this image. The same request again changes nothing until the disk was
 * seen, but brings a fresh URL. After that it asks for another rebuild.
 */
export function rebuildVm(context: CommandContext, id: VmId, rootfs: SourcedImage): CommandResult {
  const images = [{ role: 'rootfs', ...rootfs }] as const
  const result = storeDesired(context, id, {
    reason: 'rebuild',
    inputs: { sources: new Map([[rootfs.sha256, rootfs.source]]) },
    decide: (before) => {
      const { desired } = before
      if (owesRebuild(before) && desired.image.rootfsSha256 === rootfs.sha256) return ok(desired)
      const refusal =
        refuseRebuild(context, before) ??
        refuseImageUrls(context, images, '') ??
        refuseSmallDisk(context, desired.disk, { sha256: rootfs.sha256 })
      if (refusal !== undefined) return err(refusal)
      // A record that was put back may be older than the disk.
      const rebuild = Math.max(desired.image.rebuild ?? 0, before.observed.rebuild ?? 0)
      return ok({
        ...desired,
        image: { ...desired.image, rootfsSha256: rootfs.sha256, rebuild: rebuild + 1 },
        instance: nextInstance(desired),
      })
    },
  })
  return withFreshSources(context, result, images)
}

function refuseRebuild({ store }: CommandContext, before: VmRecord): Rejection | undefined {
  const { id } = before
  if (!isStopped(before)) return notStopped(before, 'The root disk')
  const refusal = refuseProtected(before, 'rebuild')
  if (refusal !== undefined) return refusal
  const snapshot = store.snapshots
    .unfinished()
    .find(({ vmId, capture }) => vmId === id && capture === undefined)
  if (snapshot === undefined) return undefined
  const detail = `snapshot ${snapshot.id} of ${id} has not captured its disk yet: wait until it has, or delete it`
  return { code: 'snapshot_under_way', detail }
}
