import { showMib } from '../units.ts'
import type { Snapshot } from '../../client/api-client.ts'
import type { Colour } from '../text.ts'

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

export const phaseWords = ({ progress }: Snapshot): string => PHASE_WORDS[progress.phase]

/** Says `310 MiB of 2 GiB`, or only the first amount until the disk is captured. */
export function doneWords({ progress: { done_mib: done, total_mib: total } }: Snapshot): string {
  return total === undefined ? showMib(done) : `${showMib(done)} of ${showMib(total)}`
}

export function statusColour({ status, error, needs_urls: needsUrls }: Snapshot): Colour | undefined {
  if (status === 'failed') return 'red'
  if (error !== undefined || needsUrls) return 'yellow'
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

/** Says what to do about missing URLs: the next command. */
export function urlsAdvice({ id, progress }: Snapshot): string {
  return progress.phase === 'awaiting_completion'
    ? `hand over a URL to complete it: vmhostctl snapshot complete ${id} --upload FILE`
    : `hand over fresh ones: vmhostctl snapshot urls ${id} --upload FILE`
}

/** Returns the error, with the time of the next attempt; undefined without an error. */
export function errorWords({ error, fault, status }: Snapshot, nowMs: number): string | undefined {
  if (error === undefined || fault === undefined) return error
  const { code, attempt, next_attempt_at: next } = fault
  if (next === undefined || status === 'failed') return `${error} (${code})`
  const seconds = Math.max(0, Math.ceil((Date.parse(next) - nowMs) / 1000))
  return `${error} (${code}, attempt ${attempt}, next in ${seconds} s)`
}
