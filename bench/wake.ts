/** wake: from a client's first packet to the guest's first byte, beside the monitor's own restore by hand. */
import { setTimeout as delay } from 'node:timers/promises'
import { closeController } from '../lab/inside/controller.ts'
import { datagram, echo, exchange, QUIET_NOT } from '../lab/inside/first-packets.ts'
import { sh } from '../lab/inside/shell.ts'
import { asleep, makeSleeper, sleeper } from '../lab/inside/sleepers.ts'
import { removeAll } from './many-vms.ts'
import { limits } from '../src/config/limits.ts'
import { measurement, median, percentile, progress } from './measurement.ts'
import { typeInto } from '../lab/inside/type-into.ts'
import { settle, WakeFloor } from './wake-floor.ts'
import { wakeStages } from './wake-stages.ts'
import type { FloorSample } from './wake-floor.ts'
import type { SeenWake } from './wake-stages.ts'
import type { Sleeper } from '../lab/inside/sleepers.ts'

/** So many that each VM sleeps for longer than a short sleep before its turn comes again (`limits.shortSleepMs`). */
const VMS = 12
const WAKES = 100
const RETRANSMITS = 20
/** Number of bursts, with ten first packets each. */
const BURSTS = 100
const SYN_AGAIN_MS = 1000
/**
 * Pause before each measurement, because the daemon looks again at a guest that has just been saved or ended. It is
 * short, so that the next guest gets the memory of the previous one. A host that is itself a VM gives free memory back,
 * and then takes 3 ms for each MiB that is touched first.
 */
const QUIET_MS = 30

const since = new Date().toISOString().replace('T', ' ').replace(/\..*/, ' UTC')
const floor = await WakeFloor.prepare(sleeper('bench-floor', 200))
progress('the floor is prepared')
const sleepers = Array.from({ length: VMS }, (_, index) => sleeper('bench-wake', index + 1))
for (const one of sleepers) {
  await makeSleeper(one)
  await typeInto(one.id, QUIET_NOT)
}
await settle(sleepers)
progress(`${VMS} VMs are made`)
const turn = (run: number): Sleeper => sleepers[run % VMS] as Sleeper

const ours: number[] = []
const floors: FloorSample[] = []
const seen: SeenWake[] = []
let lost = 0
let first = 0
for (let run = 0; run < WAKES; run += 1) {
  const one = turn(run)
  await rested(one)
  await delay(QUIET_MS)
  const sentAtMs = wallClockMs()
  const { connectMs, firstByteMs } = await exchange(one.ipv4)
  seen.push({ id: one.id, sentAtMs, firstByteAtMs: sentAtMs + firstByteMs })
  ours.push(firstByteMs)
  lost += firstIsLost(connectMs)
  first += 1
  await asleep(one.id)
  await delay(QUIET_MS)
  const sample = await floor.restore()
  floors.push(sample)
  if ((run + 1) % 10 === 0)
    progress(
      `${run + 1} of ${WAKES} wakes: ours ${median(ours).toFixed(0)} ms, by hand ${median(floors.map((floorSample) => floorSample.firstByteMs)).toFixed(0)} ms`,
    )
}
const stages = await wakeStages(seen, since)
const retransmits = await retransmitting()
await bursts()
await floor.takeAway()
await removeAll(sleepers.map(({ id }) => id))
closeController()

const firstBytes = floors.map(({ firstByteMs }) => firstByteMs)
const common = { bench: 'wake', unit: 'ms', runs: WAKES }
const byHand = 'the same QEMU restore by hand, the packet sent when it runs'
const stage = (of: (sample: FloorSample) => number): string => median(floors.map(of)).toFixed(1)
console.log(
  JSON.stringify([
    {
      ...measurement({
        ...common,
        metric: 'first_byte_p50_ms',
        ours: median(ours),
        reference: median(firstBytes),
        reference_name: byHand,
        limit: Math.round(median(firstBytes) + 30),
      }),
      notes: [
        ...stages,
        `by hand: answers after ${stage(({ answersMs }) => answersMs)} ms, has the guest after ${stage(({ loadedMs }) => loadedMs)} ms, runs it after ${stage(({ runsMs }) => runsMs)} ms`,
      ],
    },
    measurement({
      ...common,
      metric: 'first_byte_p99_ms',
      ours: percentile(ours, 0.99),
      reference: percentile(firstBytes, 0.99),
      reference_name: byHand,
    }),
    measurement({
      ...common,
      metric: 'lost_packets',
      unit: 'packets',
      ours: lost,
      reference: first,
      reference_name: 'first packets sent: TCP, UDP and ICMP echo over IPv4 and IPv6',
      runs: first,
      limit: 0,
    }),
    measurement({
      ...common,
      metric: 'retransmit_p50_ms',
      ours: median(ours),
      reference: median(retransmits),
      reference_name: 'a client whose first packet is lost',
      runs: retransmits.length,
    }),
  ]),
)

/**
 * Returns 1 if the first packet had to be sent again, which TCP does after a second (RFC 6298, 2.1). Later packets may
 * be sent again sooner, because a guest with cold memory answers late; they are not lost.
 */
function firstIsLost(connectMs: number): number {
  return connectMs < SYN_AGAIN_MS ? 0 : 1
}

function wallClockMs(): number {
  return performance.timeOrigin + performance.now()
}

/** Waits until the VM has slept for so long that its wake does not count as flapping. */
async function rested(one: Sleeper): Promise<void> {
  const { observed } = await asleep(one.id)
  const savedAt = Date.parse(observed.saved_state?.saved_at ?? '')
  const leftMs = savedAt + limits.shortSleepMs - Date.now()
  if (leftMs > 0) await delay(leftMs)
}

/** Measures wakes when the client's first packet is dropped on the way: a datagram wakes the guest instead. */
async function retransmitting(): Promise<number[]> {
  const samples: number[] = []
  await sh('nft', 'add table inet bench; add chain inet bench out { type filter hook output priority 0; }')
  for (let run = 0; run < RETRANSMITS; run += 1) {
    const one = turn(run)
    await rested(one)
    await sh('nft', `add rule inet bench out ip daddr ${one.ipv4} tcp dport 80 tcp flags syn drop`)
    const answer = exchange(one.ipv4)
    await datagram(one.ipv4)
    await sh('nft', 'flush chain inet bench out')
    const { firstByteMs, retransmitted } = await answer
    if (retransmitted === 0) throw new Error('the first packet was not dropped')
    samples.push(firstByteMs)
  }
  await sh('nft', 'delete table inet bench')
  progress(`${RETRANSMITS} wakes with a packet lost: ${median(samples).toFixed(0)} ms`)
  return samples
}

/** Sends first packets of all kinds at once; each kind is the first of its burst in turn. */
async function bursts(): Promise<void> {
  const kinds: ((one: Sleeper) => Promise<number>)[] = [
    async ({ ipv4 }) => firstIsLost((await exchange(ipv4)).connectMs),
    async ({ ipv6 }) => firstIsLost((await exchange(ipv6)).connectMs),
    async ({ ipv4 }) => answered(datagram(ipv4)),
    async ({ ipv6 }) => answered(datagram(ipv6)),
    async ({ ipv4 }) => answered(echo(ipv4)),
    async ({ ipv6 }) => answered(echo(ipv6)),
    async ({ ipv4 }) => firstIsLost((await exchange(ipv4)).connectMs),
    async ({ ipv6 }) => firstIsLost((await exchange(ipv6)).connectMs),
    async ({ ipv4 }) => answered(datagram(ipv4)),
    async ({ ipv6 }) => answered(datagram(ipv6)),
  ]
  for (let run = 0; run < BURSTS; run += 1) {
    const one = turn(run)
    await rested(one)
    const start = run % kinds.length
    const order = [...kinds.slice(start), ...kinds.slice(0, start)]
    const counts = await Promise.all(order.map((send) => send(one)))
    lost += counts.reduce((sum, count) => sum + count, 0)
    first += counts.length
    if ((run + 1) % 10 === 0) progress(`${first} first packets, ${lost} lost`)
  }
}

/** Returns 1 if no answer came. */
async function answered(answer: Promise<number>): Promise<number> {
  try {
    await answer
    return 0
  } catch (error) {
    progress(String(error))
    return 1
  }
}
