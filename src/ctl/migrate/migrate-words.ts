import { bar, Rate } from '../progress-bar.ts'
import { showMib } from '../../lib/shown-units.ts'
import { isSettled } from '../../client/vm-words.ts'
import { errorWords } from '../vm/vm-words.ts'
import { arrivalOf, departureOf, hostOf } from './hosts.ts'
import { MIB } from '../../lib/byte-units.ts'
import type { Note } from '../wait.ts'
import type { Shell } from '../shell.ts'
import type { Move, Sides } from './hosts.ts'

/** How much of a round is copied. */
type Copied = {
  readonly round: number
  readonly copiedMib: number
  readonly totalMib: number
  readonly percent: number
}

/** Returns how far a VM is, as a phrase behind its name. */
export function stageWords(sides: Sides, { source, destination }: Move): string {
  const arrival = arrivalOf(sides)
  const stage = departureOf(sides)?.stage
  if (arrival?.stage === 'released' && sides.there !== undefined)
    return `released; ${sides.there.observed.state} at ${hostOf(destination)}`
  if (arrival?.stage === 'pulled') return `complete at ${hostOf(destination)}, waiting for the release`
  if (stage === 'withdrawn') return keptWords(sides, source)
  if (stage === 'handing_over') return handoverWords(sides)
  const copied = copiedOf(sides)
  const what = copied === undefined ? undefined : `copying round ${copied.round}`
  if (stage === 'handed_over')
    return movesDiskOnly(sides)
      ? `the guest is stopped for the handover; ${what ?? 'copying what is left of its disk'}`
      : `the guest is down for the handover; ${what ?? 'copying what is left'}`
  const round = arrival?.round ?? 0
  return what ?? (round === 0 ? 'waiting for the source' : `round ${round} is copied`)
}

/** Says what became at its source of a VM that does not move, as a phrase behind its name. */
export const keptWords = (sides: Sides, source: Move['source']): string =>
  departureOf(sides)?.withdrawn_because === 'deleted'
    ? `was deleted at ${hostOf(source)}`
    : `stays at ${hostOf(source)}`

/** Says what becomes of the guest when its host hands it over. */
function handoverWords(sides: Sides): string {
  const state = sides.here?.observed.state
  if (movesDiskOnly(sides))
    return state === 'stopped'
      ? 'the guest is stopped for the handover'
      : 'the guest is being stopped for the handover'
  const saved = state === 'sleeping' ? 'is saved' : 'is being saved'
  return `the guest is down for the handover and ${saved}`
}

/** Returns whether no memory of the guest moves. */
function movesDiskOnly({ here }: Sides): boolean {
  if (here === undefined) return false
  const { desired, observed } = here
  return desired.migration?.mode === 'cold' || desired.power === 'stopped' || observed.state === 'stopped'
}

function copiedOf(sides: Sides): Copied | undefined {
  const arrival = arrivalOf(sides)
  // Nothing is copied while the guest is being saved.
  if (departureOf(sides)?.stage === 'handing_over') return undefined
  if (arrival?.stage !== 'pulling' || arrival.progress === undefined) return undefined
  const { round, copied_bytes: copied, total_bytes: total } = arrival.progress
  const percent = total === 0 ? 100 : Math.min(100, Math.floor((copied / total) * 100))
  return { round, copiedMib: Math.floor(copied / MIB), totalMib: Math.ceil(total / MIB), percent }
}

/**
 * Returns the line that shows a move: a bar with a rate on a terminal, otherwise a line for each stage and ten percent.
 */
export function moveWriter(shell: Shell, move: Move): (sides: Sides) => string {
  let rate = new Rate()
  let round = 0
  return (sides) => {
    const head = `${move.id}: ${stageWords(sides, move)}`
    const copied = copiedOf(sides)
    if (copied === undefined) return head
    const { percent, copiedMib, totalMib } = copied
    if (!shell.stderr.isTty) return `${head}, ${percent - (percent % 10)} %`
    // Each round begins at nothing.
    if (copied.round !== round) rate = new Rate()
    round = copied.round
    const perSecond = rate.at(shell.monotonicMs(), copiedMib)
    const speed = perSecond === undefined ? '' : `  ${perSecond.toFixed(1)} MiB/s`
    const amount = `${showMib(copiedMib)} of ${showMib(totalMib)}`
    return `${head}  ${bar(percent)} ${String(percent).padStart(3)} %  ${amount}${speed}`
  }
}

/** Returns one line of JSON for a program: how far the VM is. */
export function lineOf(sides: Sides, { id }: Move): object {
  const copied = copiedOf(sides)
  return {
    vm: id,
    source_stage: departureOf(sides)?.stage,
    stage: arrivalOf(sides)?.stage,
    ...(copied === undefined
      ? {}
      : { round: copied.round, copied_mib: copied.copiedMib, total_mib: copied.totalMib }),
    state: sides.there?.observed.state,
    error: sides.there?.observed.error,
  }
}

/** Notes errors of either host. */
export const moveNotes = ({ here, there }: Sides, move: Move, nowMs: number): readonly Note[] =>
  [
    { vm: here, host: hostOf(move.source) },
    { vm: there, host: hostOf(move.destination) },
  ].flatMap(({ vm, host }) => {
    const text = vm === undefined ? undefined : errorWords(vm, nowMs)
    const news = vm?.observed.error
    return news === undefined || text === undefined
      ? []
      : [{ about: host, news, text: `at ${host}: ${text}` }]
  })

/** Says where the guest is, in plain words, as far as the hosts were seen. */
export function whereWords(sides: Sides, { id, source, destination }: Move): string {
  const [from, to] = [hostOf(source), hostOf(destination)]
  const arrival = arrivalOf(sides)
  const stage = departureOf(sides)?.stage
  if (arrival?.stage === 'released' || stage === 'released') {
    const state = arrival?.stage === 'released' ? ` (${sides.there?.observed.state})` : ''
    return `${id} belongs to ${to} now${state}; ${from} has released it and never runs it again`
  }
  if (stage === 'handing_over' || stage === 'handed_over')
    return `${id} is down for the handover at ${from}, which takes it back if ${to} does not take it within a minute`
  if (sides.here === undefined)
    return `it is not known how far ${id} is; run the command again to continue, or to find out`
  const { state: power, arrival: coming } = sides.here.observed
  if (coming?.stage === 'refused')
    return `${id} did not come to ${from} by migration ${coming.migration_id}, which has ended`
  if (coming !== undefined && coming.stage !== 'released')
    return `${id} is not at ${from} yet: migration ${coming.migration_id} brings it there, and until its release it belongs to its source`
  return stage === undefined || stage === 'withdrawn'
    ? `${id} is at ${from} (${power}), as if no move had been requested`
    : `${id} is at ${from} (${power}), and is still offered to ${to}`
}

/** Returns whether the move is over, and the guest lives at the destination as it should. */
export const hasArrived = (sides: Sides): boolean =>
  arrivalOf(sides)?.stage === 'released' && sides.there !== undefined && isSettled(sides.there)
