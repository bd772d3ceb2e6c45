import { limits } from '../../config/limits.ts'
import { doneWords, phaseWords } from './snapshot-words.ts'
import type { Snapshot } from '../../client/api-client.ts'
import type { Shell } from '../shell.ts'

/** Measures how fast something has grown lately. */
export class Rate {
  #samples: { readonly ms: number; readonly amount: number }[] = []

  /** Returns the amount per second, given the amount at this time; undefined while it has not grown. */
  at(ms: number, amount: number): number | undefined {
    this.#samples.push({ ms, amount })
    // Keep one older sample, so that the span is not empty when samples are rare.
    while ((this.#samples[1]?.ms ?? ms) < ms - limits.ctlRateMs) this.#samples.shift()
    const [first] = this.#samples
    if (first === undefined || ms <= first.ms || amount <= first.amount) return undefined
    return ((amount - first.amount) * 1000) / (ms - first.ms)
  }
}

const BAR_CELLS = 24

/**
 * Returns the line that shows the progress of a snapshot: a bar with a rate on a terminal, otherwise a line for each
 * phase and ten percent.
 */
export function progressWriter(shell: Shell): (snapshot: Snapshot) => string {
  const rate = new Rate()
  return (snapshot) => {
    const { id, progress } = snapshot
    const { percent, done_mib: done, total_mib: total } = progress
    const perSecond = rate.at(shell.monotonicMs(), done)
    const head = `${id}: ${phaseWords(snapshot)}`
    if (total === undefined) return head
    if (!shell.stderr.isTty) return `${head}, ${percent - (percent % 10)} %`
    const speed = perSecond === undefined ? '' : `  ${perSecond.toFixed(1)} MiB/s`
    return `${head}  ${bar(percent)} ${String(percent).padStart(3)} %  ${doneWords(snapshot)}${speed}`
  }
}

function bar(percent: number): string {
  const full = Math.floor((BAR_CELLS * percent) / 100)
  return `[${'#'.repeat(full)}${'-'.repeat(BAR_CELLS - full)}]`
}
