import assert from 'node:assert/strict'
import { test } from 'node:test'
import { calm } from './chaos.ts'
import { Simulation } from './simulation.ts'
import type { Odds } from './chaos.ts'

/** A developer runs more seeds by hand: SIM_SEEDS=2000 node --test test/sim */
const seeds = Number(process.env['SIM_SEEDS'] ?? 40)
const EDITS = 60
/** The acts of `Simulation.live`, in order. */
const ACTS = [
  'create',
  'pause',
  'resume',
  'grow and limit the disk',
  'limit the bandwidth',
  'offer it to another host',
  'copy it',
  'hand it over',
  'take it back',
  'let it sleep when idle',
  'fall asleep',
  'wake by a packet',
  'fall asleep again',
  'wake by a request after the clock was set back',
  'fall asleep for the third time',
  'wake for a larger disk',
  'fall asleep for the fourth time',
  'wake to be kept awake',
  'fall asleep when that time is over',
  'wake to be paused',
  'go on',
  'fall asleep for the last time',
  'stop',
  'give it more memory',
  'rebuild its disk',
  'give it another kernel',
  'start',
  'let it rest, and end its guest',
  'start after that end',
  'fall asleep after a boot',
  'delete',
] as const

const histories: Record<string, Odds> = {
  'a host without faults': { before: 0, after: 0, crash: 0 },
  'a host whose calls fail before and after their effect': { before: 0.05, after: 0.05, crash: 0 },
  'a daemon that dies at any call': { before: 0, after: 0, crash: 0.01 },
  'a host that loses its power at any call': { before: 0, after: 0, crash: 0.01, powerLoss: 0.5 },
  'a host that fails under a daemon that dies': { before: 0.03, after: 0.03, crash: 0.01 },
}

test('a host on which the traffic of guests is never known runs, stops and deletes them as desired', async () => {
  for (let seed = 1; seed <= seeds; seed += 1) {
    const simulation = new Simulation(seed, { before: 0.02, after: 0.02, crash: 0.005, withoutTraffic: true })
    try {
      await simulation.run(EDITS)
      assert.equal(simulation.sleep.seen.saves, 0)
    } catch (cause) {
      throw new Error(`seed ${seed}`, { cause })
    } finally {
      simulation.close()
    }
  }
})

/** More moments than any act has; a search that gets here does not end. */
const MOMENTS_MAX = 500

/** Acts whose wish must be on the disk before it is carried out, one of each kind: all acts would take too long. */
const STORED: readonly (typeof ACTS)[number][] = [
  'create',
  'grow and limit the disk',
  'fall asleep',
  'stop',
  'delete',
]

for (const [who, acts, odds] of [
  ['a daemon that dies', ACTS, calm],
  ['a daemon that dies, with Firecracker', ACTS, { ...calm, monitor: 'firecracker' }],
  ['a host that loses its power', STORED, { ...calm, powerLoss: 1 }],
] as const) {
  test(`${who} at any one moment of a VM's life, act by act, continues where it was`, async () => {
    for (const name of acts) {
      const act = ACTS.indexOf(name)
      let moments = 0
      for (let dieAt = 1; dieAt <= MOMENTS_MAX; dieAt += 1) {
        const simulation = new Simulation(1, odds)
        try {
          if (!(await simulation.live(act, dieAt))) break
          moments = dieAt
        } catch (cause) {
          throw new Error(`it died at moment ${dieAt} of act "${name}"`, { cause })
        } finally {
          simulation.close()
        }
      }
      assert.ok(moments > 0 && moments < MOMENTS_MAX, `act "${name}" had ${moments} moments`)
    }
  })
}

for (const [name, odds] of Object.entries(histories)) {
  test(`${name}: every history ends as desired, and no generation is published early`, async () => {
    const seen = { saves: 0, restores: 0, held: 0, handovers: 0, releases: 0 }
    for (let seed = 1; seed <= seeds; seed += 1) {
      const simulation = new Simulation(seed, odds)
      try {
        await simulation.run(EDITS)
        for (const what of ['saves', 'restores', 'held'] as const) seen[what] += simulation.sleep.seen[what]
        for (const what of ['handovers', 'releases'] as const) seen[what] += simulation.seen[what]
      } catch (cause) {
        throw new Error(`seed ${seed} of "${name}"`, { cause })
      } finally {
        simulation.close()
      }
    }
    // Guests that never slept or moved would prove nothing.
    const { releases, ...often } = seen
    assert.ok(Math.min(...Object.values(often)) > seeds / 2, JSON.stringify(seen))
    assert.ok(releases > seeds / 10, JSON.stringify(seen))
  })
}
