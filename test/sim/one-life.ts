import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Simulation } from './simulation.ts'
import type { Odds } from './chaos.ts'

/** The acts of `Simulation.live`, in order. */
export const ACTS = [
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
  'save it paused while the host shuts down',
  'go on',
  'save it while the host shuts down',
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

export type ActName = (typeof ACTS)[number]

/** More moments than any act has; a search that gets here does not end. */
const MOMENTS_MAX = 500

/** Tests a VM's life: the daemon, or the host, ends at each moment of each of these acts, and starts again. */
export function testOneLife(who: string, names: readonly ActName[], odds: Odds): void {
  test(`${who} at any one moment of a VM's life, act by act, continues where it was`, async () => {
    for (const name of names) {
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
