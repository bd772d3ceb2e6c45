import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Simulation } from './simulation.ts'
import type { Odds } from './chaos.ts'

/** A developer runs more seeds by hand: SIM_SEEDS=2000 node --test test/sim */
const seeds = Number(process.env['SIM_SEEDS'] ?? 40)
const EDITS = 60
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
    } catch (cause) {
      throw new Error(`seed ${seed}`, { cause })
    } finally {
      simulation.close()
    }
  }
})

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
    const { saves, restores, held, handovers, releases } = seen
    assert.ok(Math.min(saves, restores, held) > seeds / 2, JSON.stringify(seen))
    // A handover needs several edits in a row: about two histories of three have one.
    assert.ok(handovers > seeds / 4, JSON.stringify(seen))
    assert.ok(releases > seeds / 20, JSON.stringify(seen))
  })
}
