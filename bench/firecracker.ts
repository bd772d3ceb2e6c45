/** firecracker: boot, save, restore and wake of a Firecracker guest, beside its API by hand and beside QEMU. */
import { setTimeout as delay } from 'node:timers/promises'
import { firstEcho, makeBare, udpEcho } from '../lab/inside/bare.ts'
import { closeController, remove, setPower, settled } from '../lab/inside/controller.ts'
import { doneSteps } from '../lab/inside/done-steps.ts'
import { echo } from '../lab/inside/first-packets.ts'
import { mainPid } from '../lab/inside/shell.ts'
import { asleep, sleepAfter, sleeper } from '../lab/inside/sleepers.ts'
import { limits } from '../src/config/limits.ts'
import { FirecrackerFloor, MEMORY_MIB } from './firecracker-floor.ts'
import { measurement, median, percentile, progress } from './measurement.ts'
import { memoryMib } from './process-memory.ts'
import { wakeStages } from './wake-stages.ts'
import type { Measurement } from './measurement.ts'
import type { SeenWake } from './wake-stages.ts'
import type { BootSample, RestoreSample } from './firecracker-floor.ts'
import type { Sleeper } from '../lab/inside/sleepers.ts'

/** So many that each VM sleeps for longer than a short sleep before its turn comes again (`limits.shortSleepMs`). */
const VMS = 10
const BOOTS = 10
const WAKES = 112
/** First packets of one wake, of several kinds at once; so 1000 in all. */
const BURST = 9
/** The most that the daemon may add to the monitor's own restore. */
const ADDED_MS_MAX = 25

type Family = { readonly monitor: 'firecracker' | 'qemu'; readonly prefix: string }
const FIRECRACKER: Family = { monitor: 'firecracker', prefix: 'fc' }
const QEMU: Family = { monitor: 'qemu', prefix: 'qemu' }

type Figures = {
  readonly boots: readonly BootSample[]
  readonly wakes: readonly number[]
  /** Stages of a wake in the middle, one line each. */
  readonly stages: readonly string[]
  readonly saves: readonly number[]
  readonly sent: number
  readonly lost: number
}

const since = new Date().toISOString().replace('T', ' ').replace(/\..*/, ' UTC')
const floor = await FirecrackerFloor.prepare(sleeper('fc-floor', 200))
progress('the floor is prepared')
const bootsByHand: BootSample[] = []
const savesByHand: number[] = []
const restores: RestoreSample[] = []
const ours = await measure(FIRECRACKER, {
  besideBoot: async () => {
    bootsByHand.push(await floor.boot())
    savesByHand.push(await floor.save())
  },
  besideWake: async () => void restores.push(await floor.restore()),
})
await floor.takeAway()
const qemu = await measure(QEMU)
closeController()
report()

/** Measures one monitor under the daemon, each measurement in turn with one by hand. */
async function measure(
  family: Family,
  beside: { besideBoot?: () => Promise<void>; besideWake?: () => Promise<void> } = {},
): Promise<Figures> {
  const boots = await bootAll(family, beside.besideBoot)
  const woken = await wakeAll(family, beside.besideWake)
  return { boots, ...woken, saves: await loggedSaves(`${family.prefix}-wake-`) }
}

async function bootAll(
  { monitor, prefix }: Family,
  beside: () => Promise<void> = async () => {},
): Promise<BootSample[]> {
  const one = sleeper(`${prefix}-boot`, 201)
  await makeBare(one, { monitor, memoryMib: MEMORY_MIB })
  const samples: BootSample[] = []
  for (let run = 0; run < BOOTS; run += 1) {
    await setPower(one.id, 'stopped')
    await settled(one.id, 'stopped')
    await beside()
    const answered = firstEcho(one.ipv4)
    await setPower(one.id, 'running')
    const firstByteMs = await answered
    await settled(one.id, 'running')
    samples.push({ firstByteMs, rssMib: memoryMib(await mainPid(`vmhost-${one.id}`)) })
  }
  await remove(one.id)
  progress(`${monitor}: ${BOOTS} boots, ${median(samples.map((boot) => boot.firstByteMs)).toFixed(0)} ms`)
  return samples
}

async function wakeAll(
  { monitor, prefix }: Family,
  beside: () => Promise<void> = async () => {},
): Promise<Omit<Figures, 'boots' | 'saves'>> {
  const sleepers = Array.from({ length: VMS }, (_, index) => sleeper(`${prefix}-wake`, index + 1))
  for (const one of sleepers) await makeBare(one, { monitor, memoryMib: MEMORY_MIB })
  for (const { id } of sleepers) await sleepAfter(id, 1, MEMORY_MIB)
  const seen: SeenWake[] = []
  let [sent, lost] = [0, 0]
  for (let run = 0; run < WAKES; run += 1) {
    const one = sleepers[run % VMS] as Sleeper
    await rested(one)
    await beside()
    const first = udpEcho(one.ipv4)
    const others = [
      udpEcho(one.ipv6),
      echo(one.ipv4),
      echo(one.ipv6),
      ...Array.from({ length: BURST - 4 }, () => udpEcho(one.ipv4)),
    ]
    const tookMs = await first
    // The sockets of all packets are made before the first one is sent.
    const firstByteAtMs = Date.now()
    seen.push({ id: one.id, sentAtMs: firstByteAtMs - tookMs, firstByteAtMs })
    const answers = await Promise.allSettled(others)
    sent += BURST
    lost += answers.filter(({ status }) => status === 'rejected').length
    if ((run + 1) % 10 === 0)
      progress(
        `${monitor}: ${run + 1} of ${WAKES} wakes, ${median(durations(seen)).toFixed(0)} ms, ${lost} lost`,
      )
  }
  const stages = await wakeStages(seen, since)
  for (const { id } of sleepers) await remove(id)
  return { wakes: durations(seen), stages, sent, lost }
}

function durations(wakes: readonly SeenWake[]): number[] {
  return wakes.map(({ sentAtMs, firstByteAtMs }) => firstByteAtMs - sentAtMs)
}

/** Waits until the VM has slept for so long that its wake does not count as flapping. */
async function rested({ id }: Sleeper): Promise<void> {
  const { observed } = await asleep(id)
  const leftMs = Date.parse(observed.saved_state?.saved_at ?? '') + limits.shortSleepMs - Date.now()
  if (leftMs > 0) await delay(leftMs)
}

/** Reads the milliseconds of each save from the daemon's log: from the decision until the guest is published. */
async function loggedSaves(prefix: string): Promise<number[]> {
  return (await doneSteps(since))
    .filter(({ vmId, step }) => vmId.startsWith(prefix) && step === 'monitor.ensure-saved')
    .map(({ elapsedMs }) => elapsedMs)
}

type Row = Pick<Measurement, 'metric' | 'ours' | 'reference'> & Partial<Measurement>

function byHand(row: Row): Measurement {
  return rowOf("Firecracker's own API by hand", row)
}

function besideQemu(row: Row): Measurement {
  return rowOf('the same guest under QEMU, by this daemon', row)
}

function rowOf(reference_name: string, row: Row): Measurement {
  return measurement({ bench: 'firecracker', unit: 'ms', runs: BOOTS, reference_name, ...row })
}

function report(): void {
  const lost = {
    metric: 'lost_packets',
    unit: 'packets',
    ours: ours.lost,
    reference: ours.sent,
    runs: ours.sent,
    limit: 0,
  }
  const kinds = 'first packets sent: UDP and ICMP echo over IPv4 and IPv6'
  console.log(JSON.stringify([...bootRows(), ...wakeRows(), ...saveRows(), rowOf(kinds, lost)]))
}

function bootRows(): Measurement[] {
  const bootMs = (samples: readonly BootSample[]): number =>
    median(samples.map(({ firstByteMs }) => firstByteMs))
  const rss = (samples: readonly BootSample[]): number => median(samples.map(({ rssMib }) => rssMib))
  const [mine, hand] = [bootMs(ours.boots), bootMs(bootsByHand)]
  const memory = { metric: 'monitor_rss_mib', unit: 'MiB', ours: rss(ours.boots) }
  return [
    byHand({ metric: 'boot_added_ms', ours: mine - hand, reference: hand }),
    besideQemu({ metric: 'boot_first_byte_ms', ours: mine, reference: bootMs(qemu.boots) }),
    byHand({ ...memory, reference: rss(bootsByHand) }),
    besideQemu({ ...memory, reference: rss(qemu.boots) }),
  ]
}

function wakeRows(): Measurement[] {
  const restored = restores.map(({ firstByteMs }) => firstByteMs)
  const stage = (of: (sample: RestoreSample) => number): string => median(restores.map(of)).toFixed(1)
  const rows = ([0.5, 0.99] as const).flatMap((fraction) => {
    const metric = `wake_first_byte_p${fraction * 100}_ms`
    const row = { metric, runs: WAKES, ours: percentile(ours.wakes, fraction) }
    return [
      byHand({ ...row, reference: percentile(restored, fraction) }),
      besideQemu({ ...row, reference: percentile(qemu.wakes, fraction) }),
    ]
  })
  const added = {
    metric: 'restore_added_ms',
    runs: WAKES,
    ours: median(ours.wakes) - median(restored),
    reference: median(restored),
    limit: ADDED_MS_MAX,
  }
  const byHandStages = `by hand: listens after ${stage(({ answersMs }) => answersMs)} ms, has the guest after ${stage(({ loadedMs }) => loadedMs)} ms`
  return [...rows, { ...byHand(added), notes: [byHandStages, 'ours:', ...ours.stages] }]
}

function saveRows(): Measurement[] {
  const save = { metric: 'save_ms', runs: ours.saves.length, ours: median(ours.saves) }
  return [
    byHand({ ...save, reference: median(savesByHand) }),
    besideQemu({ ...save, reference: median(qemu.saves) }),
  ]
}
