/** Random work over the API leaves no descriptor and no timer behind. `./dev bench soak` does the same for an hour. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sampleAtRest } from '../../bench/soak-sample.ts'
import { ACTS, SoakPlayer } from '../../bench/soak-player.ts'
import { bareRequest } from '../../lab/inside/bare.ts'
import { remove } from '../../lab/inside/controller.ts'
import { sleeper } from '../../lab/inside/sleepers.ts'
import { until } from '../../lab/inside/until.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { sharedHost } from './shared-host.ts'
import type { SoakSample } from '../../bench/soak-sample.ts'

const VMS = 4
const SEED = 7
/** Rounds until code that opens something once has run. */
const FIRST_ROUNDS = 2
const ROUNDS = 8
const BOUND_MS = 30_000
/**
 * Things that the daemon may have opened for the first time since. A leak is one for each time that an act was played.
 */
const SLACK = 1

sharedHost()

test(
  'after rounds of random work the daemon holds as much as after the first ones',
  { skip: skipWithoutBareGuest },
  async (t) => {
    const vms = Array.from({ length: VMS }, (_, index) => sleeper('soaked', index + 71))
    const players = vms.map((vm, index) => {
      const request = bareRequest(vm, { monitor: 'qemu' })
      return new SoakPlayer({ ...vm, request, seed: SEED + index })
    })
    await Promise.all(players.map((player) => player.begin()))
    const playRounds = async (rounds: number): Promise<void> => {
      for (let round = 0; round < rounds; round += 1)
        await Promise.all(players.map((player) => player.playRound()))
    }
    await playRounds(FIRST_ROUNDS)
    const first = await sampleAtRest()
    const firstActs = played(players)
    await playRounds(ROUNDS - FIRST_ROUNDS)
    const last = await until(
      `the daemon holds as much as before: ${held(first)}`,
      async () => {
        const now = await sampleAtRest()
        if (now.descriptors > first.descriptors + SLACK || now.timers > first.timers + SLACK)
          throw new Error(`it holds ${held(now)}`)
        return now
      },
      BOUND_MS,
    )
    assert.equal(last.pid, first.pid)
    const unplayed = ACTS.filter((name) => (played(players).get(name) ?? 0) === (firstActs.get(name) ?? 0))
    assert.deepEqual(unplayed, [], 'each act is played again, so that its leak shows')
    t.diagnostic(`${held(first)}, and then ${held(last)}`)
    for (const { id } of vms) await remove(id)
  },
)

const held = ({ descriptors, timers }: SoakSample): string =>
  `${descriptors} descriptors and ${timers} timers`

/** Returns how often all players together have played each act. */
function played(players: readonly SoakPlayer[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>()
  for (const { acted } of players)
    for (const [name, times] of acted) sums.set(name, (sums.get(name) ?? 0) + times)
  return sums
}
