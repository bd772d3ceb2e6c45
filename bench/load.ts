/**
 * load: 20 real guests that boot at once, and the daemon with 1,000 running VMs, whose monitors are stand-ins, beside the
 * same daemon without VMs.
 */
import { closeController, call } from '../lab/inside/controller.ts'
import { mainPid } from '../lab/inside/shell.ts'
import { bootStorm } from './boot-storm.ts'
import { createRunning, killAndStart, prepareLoad, startByHand } from './load-stage.ts'
import { removeAll } from './many-vms.ts'
import { measurement, median, percentile, progress } from './measurement.ts'
import { cpuPercent } from './process-cpu.ts'
import { memoryMib } from './process-memory.ts'
import type { Measurement } from './measurement.ts'
import type { Start } from './load-stage.ts'

const VMS = 1000
const KILLS = 5
/** From a start until the daemon is at rest: first looks, and what it does once after them. */
const REST_MS = 20_000
const CPU_SECONDS = 60
const SYNCS = 300

const ids = Array.from({ length: VMS }, (_, index) => `bench-load-${index}`)
const storm = await bootStorm()
const monitors = await prepareLoad()
const empty = await measureRest()
progress('measured without VMs')
const handMs = await startByHand(VMS)
progress(`${VMS} units by hand: ${(handMs / 1000).toFixed(1)} s`)
const createMs = await createRunning(ids)
progress(`${VMS} VMs run: ${(createMs / 1000).toFixed(1)} s`)
const full = await measureRest()
await removeAll(ids)
monitors.close()
closeController()
const common = { bench: 'load', reference_name: 'the same daemon without VMs' }
const WITHOUT = 'without VMs; of new processes after a SIGKILL'
const rows: Measurement[] = [
  storm,
  measurement({
    ...common,
    metric: `create_${VMS}_s`,
    unit: 's',
    ours: createMs / 1000,
    reference: handMs / 1000,
    reference_name: `${VMS} systemd-run of the same program, 8 at a time: no disk, tap, firewall, console or sandbox`,
    runs: 1,
  }),
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
    ours: percentile(full.syncsMs, 0.99),
    reference: percentile(empty.syncsMs, 0.99),
    runs: SYNCS,
  }),
]
console.log(JSON.stringify(rows))

type Rest = {
  readonly starts: readonly Start[]
  readonly rssMib: number
  readonly cpuPercent: number
  readonly syncsMs: readonly number[]
}

/** Measures the daemon after crashes, and then at rest. */
async function measureRest(): Promise<Rest> {
  const measured: Start[] = []
  for (let run = 0; run < KILLS; run += 1) measured.push(await killAndStart())
  await new Promise((resolve) => setTimeout(resolve, REST_MS))
  const pid = await mainPid('vmhostd')
  const cpu = await cpuPercent(pid, CPU_SECONDS)
  const rssMib = memoryMib(pid)
  const syncsMs: number[] = []
  for (let index = 0; index < SYNCS; index += 1) syncsMs.push(await syncMs())
  return { starts: measured, rssMib, cpuPercent: cpu, syncsMs }
}

async function syncMs(): Promise<number> {
  const startedAt = performance.now()
  const { status } = await call('GET', '/v1/sync')
  if (status !== 200) throw new Error(`GET /v1/sync: ${status}`)
  return performance.now() - startedAt
}

function starts(metric: string, of: (start: Start) => number): Measurement {
  const samples = { ours: median(full.starts.map(of)), reference: median(empty.starts.map(of)) }
  return measurement({ ...common, metric, unit: 'ms', ...samples, reference_name: WITHOUT, runs: KILLS })
}
