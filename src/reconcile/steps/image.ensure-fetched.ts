import { limits } from '../../config/limits.ts'
import { assert } from '../../lib/assert.ts'
import type { Disk, ImageRole } from '../../core/vm/desired.ts'
import type { ImageBound } from '../../ports/storage.ts'
import type { Executor } from './executor.ts'

/** Afterwards the image is in the pool, is what its digest says, and is not plainly unfit for its part. */
export const ensureFetched: Executor<'image.ensure-fetched'> = async (
  step,
  { host, inputs, record, signal },
) => {
  const source = inputs.sources.get(step.sha256)
  assert(source !== undefined, `no source for the ${step.role} image`)
  await host.storage.ensureImage(step.sha256, source, signal, boundOf(step.role, record.desired.disk))
  await host.storage.checkImage(step)
}

const MIB = 1024 * 1024

/** A rootfs image becomes a disk; the monitor reads kernel and initrd into the guest's memory. */
const boundOf = (role: ImageRole, { sizeMib }: Disk): ImageBound =>
  role === 'rootfs'
    ? { bytesMax: sizeMib * MIB, excess: 'disk_smaller_than_image' }
    : { bytesMax: limits.bootImageBytesMax, excess: 'image_too_large' }
