import { once } from 'node:events'
import { watch } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { settled } from '../lab/inside/controller.ts'
import { doneSteps } from '../lab/inside/done-steps.ts'
import { datagram, QUIET_NOT } from '../lab/inside/first-packets.ts'
import { sleepAfter } from '../lab/inside/sleepers.ts'
import { typeInto } from '../lab/inside/type-into.ts'
import { until } from '../lab/inside/until.ts'
import { measurement, median, progress } from './measurement.ts'
import type { Sleeper } from '../lab/inside/sleepers.ts'
import type { Measurement } from './measurement.ts'

const RUNS = 40
/** How much later the packet comes in a save, from run to run. */
const STAGGER_MS = 50
const STAGGERS = 5
/** The promised bound for a client of a guest that is being saved. */
const BOUND_MS = 50

/** A datagram during a save: the time until the guest answered, and until its partial save was removed. */
type GivenUp = { readonly answerMs: number; readonly clearedMs: number }

/**
 * Measures the cost for a client whose packet comes while the guest is being saved. The VM runs, and stays awake
 * afterwards.
 */
export async function measureGivenUp(one: Sleeper, memoryMib: number): Promise<Measurement[]> {
  await sleepAfter(one.id, 0, memoryMib)
  await settled(one.id, 'running')
  await typeInto(one.id, QUIET_NOT)
  const running: number[] = []
  for (let run = 0; run < RUNS; run += 1) running.push(await datagram(one.ipv4))
  await sleepAfter(one.id, 1, memoryMib)
  const samples: GivenUp[] = []
  for (let tries = 0; samples.length < RUNS; tries += 1) {
    const sample = await giveUp(one, (tries % STAGGERS) * STAGGER_MS)
    if (sample !== undefined) samples.push(sample)
  }
  await sleepAfter(one.id, 0, memoryMib)
  const answers = samples.map(({ answerMs }) => answerMs)
  const cleared = samples.map(({ clearedMs }) => clearedMs)
  progress(
    `${RUNS} saves given up: the guest answers in ${median(answers).toFixed(1)} ms, at most ${Math.max(...answers).toFixed(1)} ms`,
  )
  const row = (metric: string, ours: number): Measurement =>
    measurement({
      bench: 'save',
      metric,
      unit: 'ms',
      ours,
      reference: median(running),
      reference_name: 'a datagram that the guest answers while it runs',
      runs: RUNS,
      limit: BOUND_MS,
    })
  return [
    {
      ...row('goes_on_p50_ms', median(answers)),
      notes: [
        'from a packet in the middle of a save until the guest, which goes on, has answered it',
        `what was saved so far is gone, by the daemon’s log, after ${median(cleared).toFixed(0)} ms, at most ${Math.max(...cleared).toFixed(0)} ms`,
      ],
    },
    {
      ...row('goes_on_max_ms', Math.max(...answers)),
      notes: [`${answers.filter((ms) => ms > BOUND_MS).length} of ${RUNS} took longer than ${BOUND_MS} ms`],
    },
  ]
}

/** Returns undefined if the save was over before. */
async function giveUp({ id, ipv4 }: Sleeper, laterMs: number): Promise<GivenUp | undefined> {
  await datagram(ipv4)
  const watcher = watch(`/var/lib/vmhostd/pool/disks/${id}/save`)
  await once(watcher, 'change')
  watcher.close()
  await delay(laterMs)
  const sentAtMs = Date.now()
  const answerMs = await datagram(ipv4)
  const save = await until('the daemon reports the end of the save', async () => {
    const done = await doneSteps(`@${Math.floor(sentAtMs / 1000) - 1}`)
    return done.find(
      ({ vmId, step, endedAtMs }) => vmId === id && step === 'monitor.ensure-saved' && endedAtMs >= sentAtMs,
    )
  })
  return save.isGivenUp ? { answerMs, clearedMs: save.endedAtMs - sentAtMs } : undefined
}
