/**
 * Wakes of bare guests, one after the other, each as soon as the one before has answered: first with memory for all of
 * them, and then with memory for a few, so that each waits until an idle VM sleeps early.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { makeBare, udpEcho } from '../lab/inside/bare.ts'
import { configure } from '../lab/inside/configure.ts'
import { call, getVm } from '../lab/inside/controller.ts'
import { asleep, sleepAfter, sleeper } from '../lab/inside/sleepers.ts'
import { limits } from '../src/config/limits.ts'
import { removeAll } from './many-vms.ts'
import { median, progress } from './measurement.ts'
import type { Sleeper } from '../lab/inside/sleepers.ts'

/** So many that each sleeps for longer than a short sleep before its turn comes again. */
const VMS = 24
const ROUNDS = 4
const MEMORY_MIB = 128
/** VMs that the memory is for while it is short. */
const AWAKE = 4
const IDLE_SECONDS = 2
/** A quarter of it is as long as a woken guest stays awake at least. */
const IDLE_SECONDS_WHEN_SHORT = 12

export type WakesWhenShort = {
  readonly ampleMs: readonly number[]
  readonly shortMs: readonly number[]
  /** Wakes among these that waited in the queue. */
  readonly queued: number
  readonly awake: number
  readonly vms: number
}

export async function wakesWhenShort(): Promise<WakesWhenShort> {
  const sleepers = Array.from({ length: VMS }, (_, index) => sleeper('density', index + 1))
  for (const one of sleepers)
    await makeBare(one, { monitor: 'qemu', memoryMib: MEMORY_MIB, sleepAfterIdleSeconds: IDLE_SECONDS })
  progress(`${VMS} VMs are made`)
  const { total_mib: totalMib, committed_mib: committedMib } = await memory()
  const ampleMs: number[] = []
  for (let round = 1; round <= ROUNDS; round += 1) {
    await allRested(sleepers)
    for (const one of sleepers) ampleMs.push(await udpEcho(one.ipv4))
    progress(`${ampleMs.length} wakes with memory for all: ${median(ampleMs).toFixed(0)} ms`)
  }
  await allRested(sleepers)
  const each = committedMib / VMS
  await configure('capacity', {
    memory_sleep_ratio: 0,
    memory_reserve_mib: totalMib - Math.ceil(AWAKE * each),
  })
  for (const one of sleepers) await sleepAfter(one.id, IDLE_SECONDS_WHEN_SHORT, MEMORY_MIB)
  await allRested(sleepers)
  const shortMs: number[] = []
  let queued = 0
  // The first ones find memory, and are not measured.
  for (let run = -AWAKE; run < ROUNDS * VMS; run += 1) {
    const one = sleepers[(run + VMS) % VMS] as Sleeper
    const free = await freeMib()
    const ms = await udpEcho(one.ipv4)
    if (run < 0) continue
    shortMs.push(ms)
    if (free < each) queued += 1
    if (shortMs.length % VMS === 0)
      progress(`${shortMs.length} wakes with memory for ${AWAKE}: ${median(shortMs).toFixed(0)} ms`)
  }
  await removeAll(sleepers.map(({ id }) => id))
  await configure('capacity', { memory_sleep_ratio: undefined, memory_reserve_mib: undefined })
  return { ampleMs, shortMs, queued, awake: AWAKE, vms: VMS }
}

type Memory = Readonly<Record<'total_mib' | 'committed_mib' | 'allocatable_mib' | 'held_mib', number>>

const memory = async (): Promise<Memory> => {
  const { body } = await call('GET', '/v1/sync')
  return (body as unknown as { capacity: { memory: Memory } }).capacity.memory
}

async function freeMib(): Promise<number> {
  const { allocatable_mib: allocatable, held_mib: held } = await memory()
  return allocatable - held
}

/** Waits until all have slept for so long that their wakes do not count as flapping. */
async function allRested(sleepers: readonly Sleeper[]): Promise<void> {
  for (const { id } of sleepers) {
    await asleep(id)
    const savedAt = Date.parse((await getVm(id)).observed.saved_state?.saved_at ?? '')
    await delay(Math.max(0, savedAt + limits.shortSleepMs - Date.now()))
  }
}
