import { fromWire } from './member-mapper.ts'
import type { Compute, Disk } from '../../core/desired.ts'
import type { SetComputeWire, SetDiskWire } from './requests.ts'

export const computeFromWire = fromWire<SetComputeWire, Compute>()({})

export const diskFromWire = fromWire<SetDiskWire, Disk>()({})
