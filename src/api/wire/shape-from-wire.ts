import type { Compute, Disk } from '../../core/desired.ts'
import type { SetComputeWire, SetDiskWire } from './requests.ts'

export const computeFromWire = (compute: SetComputeWire): Compute => ({
  cpuMillicores: compute.cpu_millicores,
  memoryMib: compute.memory_mib,
  sleepAfterIdleSeconds: compute.sleep_after_idle_seconds,
})

export const diskFromWire = (disk: SetDiskWire): Disk => ({
  sizeMib: disk.size_mib,
  ...(disk.iops_max === undefined ? {} : { iopsMax: disk.iops_max }),
  ...(disk.mib_per_second_max === undefined ? {} : { mibPerSecondMax: disk.mib_per_second_max }),
})
