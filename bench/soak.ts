/** soak: an hour of random work over the API with stand-in monitors, and how what the daemon holds grows meanwhile. */
import { bareRequest } from '../lab/inside/bare.ts'
import { closeController } from '../lab/inside/controller.ts'
import { sleeper } from '../lab/inside/sleepers.ts'
import { prepareLoad } from './load-stage.ts'
import { removeAll } from './many-vms.ts'
import { measurement, median, progress } from './measurement.ts'
import { slopeOf } from './slope.ts'
import { SoakPlayer } from './soak-player.ts'
import { sampleAtRest } from './soak-sample.ts'
import type { Measurement } from './measurement.ts'
import type { Point } from './slope.ts'
import type { SoakSample } from './soak-sample.ts'

const [minutes = '60'] = process.argv.slice(2)
const MINUTES = Number(minutes)
const VMS = 8
const SEED = 1
const HOUR_MS = 3_600_000
/** Parts of the run, of which the first is left out. */
const PARTS = 6

const monitors = await prepareLoad()
const vms = Array.from({ length: VMS }, (_, index) => sleeper('bench-soak', index + 1))
const players = vms.map((vm, index) => {
  const request = bareRequest(vm, { monitor: 'qemu' })
  return new SoakPlayer({ ...vm, request, seed: SEED + index })
})
await Promise.all(players.map((player) => player.begin()))
const startedAt = performance.now()
const samples: (SoakSample & { readonly atMs: number })[] = []
while (performance.now() - startedAt < MINUTES * 60_000) {
  await Promise.all(players.map((player) => player.playRound()))
  const sample = { ...(await sampleAtRest()), atMs: performance.now() - startedAt }
  samples.push(sample)
  progress(`round ${samples.length} at ${(sample.atMs / 60_000).toFixed(1)} min: ${words(sample)}`)
  if (sample.pid !== samples[0]?.pid) throw new Error('the daemon was started again')
}
await removeAll(vms.map(({ id }) => id))
monitors.close()
closeController()

const acts = players.flatMap(({ acted }) => [...acted.values()]).reduce((sum, one) => sum + one, 0)
// The first half is the warm-up: code is compiled, caches and the table of events fill.
const counted = samples.slice(Math.floor(samples.length / 2))
const row = (metric: string, unit: string, points: readonly Point[]): Measurement =>
  measurement({
    bench: 'soak',
    metric,
    unit: `${unit}/h`,
    ours: slopeOf(points),
    reference: points.reduce((sum, { value }) => sum + value, 0) / points.length,
    reference_name: `the mean level, in ${unit}`,
    runs: points.length,
  })
const pointsOf = (of: (sample: SoakSample) => number): readonly Point[] =>
  counted.map((sample) => ({ at: sample.atMs / HOUR_MS, value: of(sample) }))
const rows: Measurement[] = [
  {
    ...row('memory_slope', 'MiB', middleMemory()),
    notes: [
      `the median of each ${MINUTES / PARTS} minutes after the first, with garbage: all of it is collected once or twice in an hour`,
    ],
  },
  {
    ...row(
      'descriptors_slope',
      'descriptors',
      pointsOf(({ descriptors }) => descriptors),
    ),
    notes: [
      `slopes by least squares over the second half of ${MINUTES} minutes: ${samples.length} rounds, ${acts} acts on ${VMS} VMs`,
      'each sample is taken at rest after a round, which ends with the same VMs in the same state',
    ],
  },
  row(
    'timers_slope',
    'timers',
    pointsOf(({ timers }) => timers),
  ),
  row(
    'database_slope',
    'MiB',
    pointsOf(({ databaseMib }) => databaseMib),
  ),
]
console.log(JSON.stringify(rows))

/**
 * Returns the median of each part but the first. The least of a part would say whether a collection of all garbage fell
 * into it.
 */
function middleMemory(): readonly Point[] {
  const partMs = (MINUTES * 60_000) / PARTS
  return Array.from({ length: PARTS - 1 }, (_, index) => (index + 1) * partMs).flatMap((fromMs) => {
    const part = samples.filter(({ atMs }) => atMs >= fromMs && atMs < fromMs + partMs)
    if (part.length === 0) return []
    return [{ at: (fromMs + partMs / 2) / HOUR_MS, value: median(part.map(({ memoryMib }) => memoryMib)) }]
  })
}

function words({ memoryMib, descriptors, timers, databaseMib }: SoakSample): string {
  return `${memoryMib.toFixed(1)} MiB, ${descriptors} descriptors, ${timers} timers, database ${databaseMib.toFixed(2)} MiB`
}
