import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemorySimulation } from './memory-simulation.ts'
import type { Odds } from './chaos.ts'

/** A developer runs more seeds by hand: SIM_SEEDS=2000 node --test test/sim */
const seeds = Number(process.env['SIM_SEEDS'] ?? 20)
const EDITS = 60

const histories: Record<string, Odds> = {
  'a host without faults': { before: 0, after: 0, crash: 0 },
  'a daemon that dies at any call or write': { before: 0, after: 0, crash: 0.005 },
  'a host that fails under a daemon that dies': { before: 0.02, after: 0.02, crash: 0.005 },
}

for (const [name, odds] of Object.entries(histories)) {
  test(`${name}: guests never have more memory than there is, and have theirs back in order`, async () => {
    const seen = { waits: 0, queues: 0, returns: 0, deaths: 0 }
    for (let seed = 1; seed <= seeds; seed += 1) {
      const simulation = new MemorySimulation(seed, odds)
      try {
        await simulation.run(EDITS)
      } catch (cause) {
        throw new Error(`seed ${seed} of "${name}"`, { cause })
      } finally {
        simulation.close()
      }
      const { waits, longest, returns } = simulation.watch.seen
      seen.waits += waits
      seen.returns += returns
      seen.queues += longest > 1 ? 1 : 0
      seen.deaths += simulation.deaths
    }
    // Histories without a queue, or without a death while VMs wait, would prove nothing.
    assert.ok(seen.waits > seeds && seen.returns > seeds, JSON.stringify(seen))
    assert.ok(seen.queues > seeds / 10, JSON.stringify(seen))
    if (odds.crash > 0) assert.ok(seen.deaths > seeds / 4, JSON.stringify(seen))
  })
}
