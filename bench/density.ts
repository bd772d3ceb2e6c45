/** density: how many VMs a host takes when most of them sleep, and what a wake costs when its memory is short. */
import { closeController } from '../lab/inside/controller.ts'
import { admittedAt } from './density-admission.ts'
import { wakesWhenShort } from './density-wakes.ts'
import { measurement, percentile } from './measurement.ts'
import type { Measurement } from './measurement.ts'

/** The first is the reference. */
const RATIOS = [1, 0.5, 0.25, 0]

const common = { bench: 'density' }
const rows: Measurement[] = []
let whole: number | undefined
for (const ratio of RATIOS) {
  const { vms, asleep, hostMib } = await admittedAt(ratio)
  whole ??= vms
  rows.push({
    ...measurement({
      ...common,
      metric: `vms_at_ratio_${ratio}`,
      unit: 'VMs',
      ours: vms,
      reference: whole,
      reference_name: 'the whole memory of sleeping VMs stays promised (ratio 1)',
      runs: 1,
    }),
    notes: [
      `VMs of 512 MiB that a host of ${hostMib / 1024} GiB takes until it refuses one; at ratio ${ratio}, ${asleep} of ${vms} sleep`,
      'the API, the ledger and the workers are the real ones, and the host below them is the stand-in of the tests',
    ],
  })
}
const { ampleMs, shortMs, queued, awake, vms } = await wakesWhenShort()
closeController()
for (const [metric, fraction] of [
  ['wake_short_p50_ms', 0.5],
  ['wake_short_p99_ms', 0.99],
] as const)
  rows.push({
    ...measurement({
      ...common,
      metric,
      unit: 'ms',
      ours: percentile(shortMs, fraction),
      reference: percentile(ampleMs, fraction),
      reference_name: 'the same wakes with memory for all',
      runs: shortMs.length,
    }),
    notes: [
      `${vms} bare guests of 128 MiB wake one after the other, with memory for ${awake}; ${queued} of ${shortMs.length} found none free and waited`,
      'each waited until one of them might sleep, which is three seconds after its own wake at the soonest',
    ],
  })
console.log(JSON.stringify(rows))
