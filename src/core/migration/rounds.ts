import { limits } from '../../config/limits.ts'

/** A round that was copied. */
export type CopiedRound = { readonly bytes: number; readonly ms: number }

/**
 * What follows a round. `give_up`: the last round would take longer than the guest may be down.
 */
export type AfterRound = 'another' | 'hand_over' | 'give_up'

/**
 * Decides what follows the rounds that were copied until now. Another round pays off only while rounds become smaller.
 */
export function afterRounds(rounds: readonly CopiedRound[]): AfterRound {
  const [last, before] = rounds.toReversed()
  if (last === undefined) return 'another'
  const isShort = last.ms <= limits.lastRoundMs
  const shrinks = before === undefined || last.bytes < before.bytes
  if (!isShort && shrinks && rounds.length < limits.roundsMax) return 'another'
  return copyMs(rounds, last.bytes) <= limits.handoverMsMax ? 'hand_over' : 'give_up'
}

/** Returns how long so many bytes take. The rate of a few bytes says nothing, so it is taken as fast enough. */
function copyMs(rounds: readonly CopiedRound[], bytes: number): number {
  const copied = rounds.reduce((sum, round) => sum + round.bytes, 0)
  const ms = rounds.reduce((sum, round) => sum + round.ms, 0)
  return copied < limits.rateBytesMin ? 0 : (bytes * ms) / copied
}
