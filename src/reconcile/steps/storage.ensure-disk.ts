import { markOf } from './executor.ts'
import type { Executor } from './executor.ts'

/** Afterwards the VM has its disk, cloned from the rootfs image, of at least the size asked for. */
export const ensureDisk: Executor<'storage.ensure-disk'> = (step, { host, record, signal }) =>
  host.storage.ensureDisk(
    {
      id: record.id,
      userId: record.host.userId,
      sizeMib: step.sizeMib,
      rootfsSha256: record.desired.image.rootfsSha256,
      mark: markOf(host, record),
      adopts: record.observed.disk !== undefined,
    },
    signal,
  )
