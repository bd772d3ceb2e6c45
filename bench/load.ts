/**
 * load: 20 real guests that boot at once, and the daemon with 1,000 running VMs, whose monitors are stand-ins, beside
 * the same daemon without VMs.
 */
import { closeController } from '../lab/inside/controller.ts'
import { measureAtRest } from './at-rest.ts'
import { bootStorm } from './boot-storm.ts'
import { createRunning, prepareLoad, startByHand } from './load-stage.ts'
import { removeAll } from './many-vms.ts'
import { measurement, median, percentile, progress } from './measurement.ts'
import type { Measurement } from './measurement.ts'
import type { Start } from './load-stage.ts'

const VMS = 1000
/** Times that all of them are created, and as many units started by hand, in turn. */
const ROUNDS = 3
const KILLS = 5
const SYNCS = 300
const TERMS = { kills: KILLS, path: '/v1/sync', reads: SYNCS }

const ids = Array.from({ length: VMS }, (_, index) => `bench-load-${index}`)
const storm = await bootStorm()
const monitors = await prepareLoad()
const empty = await measureAtRest(TERMS)
progress('measured without VMs')
const handMs: number[] = []
const createMs: number[] = []
for (let round = 1; round <= ROUNDS; round += 1) {
  handMs.push(await startByHand(VMS))
  createMs.push(await createRunning(ids))
  progress(`${VMS} VMs run: ${seconds(createMs)} s, units by hand: ${seconds(handMs)} s`)
  // The VMs of the last round are measured at rest.
  if (round < ROUNDS) await removeAll(ids)
}
const full = await measureAtRest(TERMS)
await removeAll(ids)
monitors.close()
closeController()
const common = { bench: 'load', reference_name: 'the same daemon without VMs' }
const WITHOUT = 'without VMs; of new processes after a SIGKILL'
const rows: Measurement[] = [
  storm,
  {
    ...measurement({
      ...common,
      metric: `create_${VMS}_s`,
      unit: 's',
      ours: median(createMs) / 1000,
      reference: median(handMs) / 1000,
      reference_name: `${VMS} systemd-run of the same program, 8 at a time: no disk, tap, firewall, console or sandbox`,
      runs: ROUNDS,
    }),
    notes: [`the rounds in order: ${seconds(createMs)} s; by hand ${seconds(handMs)} s`],
  },
  starts(`adopt_${VMS}_ms`, ({ readyMs }) => readyMs),
  starts('listener_up_ms', ({ listenerMs }) => listenerMs),
  measurement({
    ...common,
    metric: `rss_${VMS}_mib`,
    unit: 'MiB',
    ours: full.rssMib,
    reference: empty.rssMib,
    runs: 1,
  }),
  measurement({
    ...common,
    metric: 'idle_cpu_percent',
    unit: '%',
    ours: full.cpuPercent,
    reference: empty.cpuPercent,
    runs: 1,
  }),
  measurement({
    ...common,
    metric: 'sync_p99_ms',
    unit: 'ms',
    ours: percentile(full.answersMs, 0.99),
    reference: percentile(empty.answersMs, 0.99),
    runs: SYNCS,
  }),
]
console.log(JSON.stringify(rows))

function seconds(ms: readonly number[]): string {
  return ms.map((one) => (one / 1000).toFixed(1)).join(', ')
}

function starts(metric: string, of: (start: Start) => number): Measurement {
  const samples = { ours: median(full.starts.map(of)), reference: median(empty.starts.map(of)) }
  return measurement({ ...common, metric, unit: 'ms', ...samples, reference_name: WITHOUT, runs: KILLS })
}
