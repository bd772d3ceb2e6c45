import { showMib } from '../../lib/shown-units.ts'
import { bar, Rate } from '../progress-bar.ts'
import { attemptWords, causeFirst } from '../../client/cause-first.ts'
import { inWords } from '../text.ts'
import type { Snapshot } from '../../client/api-client.ts'
import type { Colour } from '../text.ts'
import type { Shell } from '../shell.ts'

const PHASE_WORDS: Readonly<Record<Snapshot['progress']['phase'], string>> = {
  waiting: 'waits for its VM',
  capturing: 'capturing the disk',
  packing: 'compressing and sending',
  sending: 'sending',
  awaiting_completion: 'all sent, not completed',
  completing: 'completing',
  completed: 'completed',
  failed: 'failed',
}

export const phaseWords = ({ progress }: Snapshot): string => inWords(progress.phase, PHASE_WORDS)

/** Says `310 MiB of 2 GiB`, or only the first amount until the disk is captured. */
export function doneWords({ progress: { done_mib: done, total_mib: total } }: Snapshot): string {
  return total === undefined ? showMib(done) : `${showMib(done)} of ${showMib(total)}`
}

export function statusColour(snapshot: Snapshot): Colour | undefined {
  const { status, error, needs_urls: needsUrls, waiting_for: waitingFor } = snapshot
  if (status === 'failed') return 'red'
  if (error !== undefined || needsUrls || waitingFor !== undefined) return 'yellow'
  return status === 'completed' ? 'green' : undefined
}

/** Says which URLs are missing: `for parts 3-5, 9`, or for the end; undefined if none is. */
export function lackingWords({ lacking_urls: lacking }: Snapshot): string | undefined {
  if (lacking === undefined) return undefined
  const parts =
    lacking.parts.length === 0
      ? []
      : [`for part${lacking.parts.length === 1 ? '' : 's'} ${runsOf(lacking.parts)}`]
  return [...parts, ...(lacking.complete ? ['to complete the upload'] : [])].join(' and ')
}

/** Writes ascending numbers as `3-5, 9`. */
function runsOf(numbers: readonly number[]): string {
  const runs: [first: number, last: number][] = []
  for (const number of numbers) {
    const run = runs.at(-1)
    if (run !== undefined && run[1] === number - 1) run[1] = number
    else runs.push([number, number])
  }
  return runs.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(', ')
}

/**
 * Says why a snapshot makes no progress: its error, or else that it needs URLs, or what it waits for; undefined if it
 * does. `afterUrls` follows the words `needs URLs`; undefined if it needs none.
 */
export function troubleWords(
  { error, waiting_for: waitingFor }: { error?: string; waiting_for?: string },
  afterUrls: string | undefined,
): string | undefined {
  if (error !== undefined) return causeFirst(error)
  if (afterUrls !== undefined) return `needs URLs${afterUrls}`
  return waitingFor === undefined ? undefined : `waits for ${waitingFor}`
}

/** Says what to do about missing URLs: the next command. */
export function urlsAdvice({ id, progress }: Snapshot): string {
  return progress.phase === 'awaiting_completion'
    ? `give a URL to complete it: vmhostctl snapshot complete ${id} --upload FILE`
    : `give fresh ones of the same upload: vmhostctl snapshot urls ${id} --upload FILE`
}

/** Returns the error, with the time of the next attempt; undefined without an error. */
export function errorWords({ error, fault, status }: Snapshot, nowMs: number): string | undefined {
  if (error === undefined || fault === undefined) return error
  const again = status === 'failed' ? undefined : attemptWords(fault, nowMs)
  return `${error} (${fault.code}${again === undefined ? '' : `, ${again}`})`
}

/**
 * Returns the line that shows the progress of a snapshot: a bar with a rate on a terminal, otherwise a line for each
 * phase and ten percent.
 */
export function progressWriter(shell: Shell): (snapshot: Snapshot) => string {
  const rate = new Rate()
  return (snapshot) => {
    const { id, progress, waiting_for: waitingFor } = snapshot
    const { percent, done_mib: done, total_mib: total } = progress
    const perSecond = rate.at(shell.monotonicMs(), done)
    const head = `${id}: ${phaseWords(snapshot)}`
    if (total === undefined) return head
    if (!shell.stderr.isTty) return `${head}, ${percent - (percent % 10)} %`
    if (waitingFor !== undefined) return `${head}, ${percent} %, waits for ${waitingFor}`
    const speed = perSecond === undefined ? '' : `  ${perSecond.toFixed(1)} MiB/s`
    return `${head}  ${bar(percent)} ${String(percent).padStart(3)} %  ${doneWords(snapshot)}${speed}`
  }
}
