/** Compares sleep and wake of our guest with libvirt's managed save and the start from it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { setPower } from '../lab/inside/controller.ts'
import { doneSteps } from '../lab/inside/done-steps.ts'
import { exchange } from '../lab/inside/first-packets.ts'
import { asleep, makeSleeper } from '../lab/inside/sleepers.ts'
import { until } from '../lab/inside/until.ts'
import { remove } from '../lab/inside/controller.ts'
import { limits } from '../src/config/limits.ts'
import { firstPing } from './first-ping.ts'
import { progress } from './measurement.ts'
import type { Domain, Libvirt } from './peers-libvirt.ts'
import type { Sleeper } from '../lab/inside/sleepers.ts'

export type SleepSamples = {
  readonly saveMs: { readonly ours: number[]; readonly theirs: number[] }
  readonly restoreMs: { readonly ours: number[]; readonly theirs: number[] }
}

export type SleepTerms = {
  readonly libvirt: Libvirt
  readonly guest: Domain
  readonly theirAddress: string
  readonly ours: Sleeper
  readonly memoryMib: number
  readonly rounds: number
}

/** Measures both in turn. Each guest serves before it is saved. */
export async function compareSleep(terms: SleepTerms): Promise<SleepSamples> {
  const { libvirt, guest, theirAddress, ours, memoryMib, rounds } = terms
  const samples: SleepSamples = {
    saveMs: { ours: [], theirs: [] },
    restoreMs: { ours: [], theirs: [] },
  }
  await makeSleeper(ours, { memoryMib })
  await libvirt.start(guest)
  await until('the guest of libvirt serves', () => exchange(theirAddress))
  for (let round = 1; round <= rounds; round += 1) {
    const { observed } = await asleep(ours.id)
    samples.saveMs.ours.push(await lastSleepMs(ours.id))
    samples.saveMs.theirs.push(await timed(() => libvirt.managedSave(guest)))
    samples.restoreMs.theirs.push(await untilPing(theirAddress, () => libvirt.start(guest)))
    // Otherwise the daemon would delay its next sleeps, as it does for a VM that is woken often.
    const restMs = Date.parse(observed.saved_state?.saved_at ?? '') + limits.shortSleepMs - Date.now()
    await sleep(Math.max(0, restMs))
    samples.restoreMs.ours.push(await untilPing(ours.ipv4, () => setPower(ours.id, 'running')))
    const last = [samples.saveMs, samples.restoreMs].map(
      ({ ours: mine, theirs }) => `${mine.at(-1)?.toFixed(0)} and ${theirs.at(-1)?.toFixed(0)} ms`,
    )
    progress(`round ${round} of ${rounds}: saved in ${last[0]}; first ping after ${last[1]} (ours, libvirt)`)
  }
  libvirt.destroy(guest)
  await remove(ours.id)
  return samples
}

async function timed(work: () => unknown): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

/** Measures from the request to the first echo reply. */
async function untilPing(address: string, request: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  const requested = request()
  const repliedAt = await firstPing(address)
  await requested
  return repliedAt - startedAt
}

/** Returns the time from the decision until the unit has ended, by the daemon's log. */
async function lastSleepMs(id: string): Promise<number> {
  const done = (await doneSteps()).filter(({ vmId }) => vmId === id)
  const held = done.findLast(({ step }) => step === 'traffic.ensure-held')
  const ended = done.findLast(({ step }) => step === 'unit.ensure-stopped')
  if (held === undefined || ended === undefined) throw new Error(`the log has no sleep of ${id}`)
  return ended.endedAtMs - held.beganAtMs
}
