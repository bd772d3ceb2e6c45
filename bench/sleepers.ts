/** sleepers: the daemon with 10,000 sleeping VMs on record and on its host, beside the same daemon without VMs. */
import { configure } from '../lab/inside/configure.ts'
import { closeController } from '../lab/inside/controller.ts'
import { makeStopped, putToSleep } from './asleep-many.ts'
import { measureAtRest } from './at-rest.ts'
import { measurement, median, percentile, progress } from './measurement.ts'
import type { AtRest } from './at-rest.ts'
import type { Measurement } from './measurement.ts'

const [count = '10000'] = process.argv.slice(2)
const VMS = Number(count)
const LISTED = 1000
const TERMS = { kills: 3, path: `/v1/vms?limit=${LISTED}`, reads: 300 }

// Otherwise the whole memory of all sleepers stays promised, which no host has.
await configure('capacity', { memory_sleep_ratio: 0 })
const empty = await measureAtRest(TERMS)
progress('measured without VMs')
const startedAt = performance.now()
await putToSleep(await makeStopped('bench-sleeper', VMS))
const madeMs = performance.now() - startedAt
progress(`made in ${(madeMs / 1000).toFixed(0)} s`)
const full = await measureAtRest(TERMS)
closeController()

const WITHOUT = 'the same daemon without VMs'
const row = (metric: string, unit: string, of: (one: AtRest) => number, runs = 1): Measurement =>
  measurement({
    ...{ bench: 'sleepers', metric, unit, ours: of(full), reference: of(empty) },
    ...{ reference_name: WITHOUT, runs },
  })
const readyMs = ({ starts }: AtRest): number => median(starts.map((one) => one.readyMs))
const listMs = ({ answersMs }: AtRest): number => percentile(answersMs, 0.99)
const rows: Measurement[] = [
  {
    ...row('start_ms', 'ms', readyMs, TERMS.kills),
    notes: [
      'from a SIGKILL of the daemon until another one is ready: it has looked at the tap, the rule and the held frames of each VM, and looks at its files later',
      `${VMS} VMs: one guest was saved, and copies of what was saved were placed beside the disks of the others; made in ${(madeMs / 1000).toFixed(0)} s`,
    ],
  },
  row(`list_${LISTED}_p99_ms`, 'ms', listMs, TERMS.reads),
  row('idle_cpu_percent', '%', ({ cpuPercent }) => cpuPercent),
  row('rss_mib', 'MiB', ({ rssMib }) => rssMib),
]
console.log(JSON.stringify(rows))
