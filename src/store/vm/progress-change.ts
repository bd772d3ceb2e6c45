import { isDeepStrictEqual } from 'node:util'
import { graceAfter } from '../../core/status/grace.ts'
import { assert } from '../../lib/assert.ts'
import { jsonOf } from './vm-row.ts'
import type { Generation } from '../../core/ids.ts'
import type { Grace, Launch, Observed, PendingWake, Progress, VmRecord } from '../../core/vm/record.ts'
import type { ProgressColumns } from './vm-row.ts'

/** The members of a record that a pass may change, besides what it observed. */
type Members = {
  readonly observedGeneration: Generation
  readonly launch: Launch | undefined
  readonly wake: PendingWake | undefined
  readonly stopCarriedOut: number
  readonly grace: Grace | undefined
  readonly exitStreak: number
  readonly mayBeSaved: boolean
}

/** The change of a record by the progress of a pass, and how it must be written. */
export type ProgressChange = {
  readonly after: Members
  readonly isNew: boolean
  /** A reader of the API sees the change. */
  readonly isVisible: boolean
  /** {@link Store.flushed} waits until the change is on the disk. */
  readonly isFlushed: boolean
  /** The change must be written. Other changes may stay in memory until the disk takes them. */
  readonly mustBeWritten: boolean
}

/** Returns what progress changes in a record. Asserts that the observed generation neither falls nor passes desired. */
export function changeBy(record: VmRecord, progress: Progress): ProgressChange {
  const before = membersOf(record)
  const after = membersAfter(record, progress)
  checkGeneration(record, after.observedGeneration)
  const rises = after.observedGeneration > before.observedGeneration
  const isVisible = rises || !isDeepStrictEqual(progress.observed, record.observed)
  const startsSaving = after.mayBeSaved && !before.mayBeSaved
  const startsEnding = after.launch?.endsQuietly === true && before.launch?.endsQuietly !== true
  // Without this write, a later daemon would end the guest that starts next, because of a stop that this daemon has
  // carried out already.
  const precedesStart = after.stopCarriedOut > before.stopCarriedOut && record.desired.power !== 'stopped'
  return {
    after,
    isNew: isVisible || !isDeepStrictEqual(after, before),
    isVisible,
    isFlushed: rises || startsSaving || startsEnding,
    mustBeWritten: startsSaving || startsEnding || precedesStart,
  }
}

const membersOf = ({ generations, launch, wake, stops, exitStreak, mayBeSaved }: VmRecord): Members => ({
  observedGeneration: generations.observed,
  launch,
  wake,
  stopCarriedOut: stops.carriedOut,
  grace: stops.grace,
  exitStreak,
  mayBeSaved: mayBeSaved === true,
})

/** Returns the members after progress. What progress does not name stays; `null` removes it. */
function membersAfter(record: VmRecord, progress: Progress): Members {
  const before = membersOf(record)
  return {
    observedGeneration: progress.observedGeneration ?? before.observedGeneration,
    launch: progress.launch === undefined ? before.launch : (progress.launch ?? undefined),
    wake: progress.wake === undefined ? before.wake : (progress.wake ?? undefined),
    stopCarriedOut: progress.stopCarriedOut ?? before.stopCarriedOut,
    grace: graceAfter(before.grace, progress),
    exitStreak: progress.exitStreak ?? before.exitStreak,
    mayBeSaved: progress.mayBeSaved ?? before.mayBeSaved,
  }
}

function checkGeneration({ id, generations }: VmRecord, observed: Generation): void {
  assert(observed >= generations.observed, `${id}: an observed generation never falls`)
  assert(observed <= generations.desired, `${id}: an observed generation never passes desired`)
}

/** The numbers of a row that rise with each change that a reader can see. */
type Revised = { readonly revision: number; readonly updatedAtMs: number }

/** Renders progress as columns. */
export const progressColumns = (
  { launch, wake, mayBeSaved, stopCarriedOut, grace, exitStreak }: Members,
  observed: Observed,
  { revision, updatedAtMs }: Revised,
): ProgressColumns => ({
  observed: JSON.stringify(observed),
  state: observed.state,
  launch: jsonOf(launch),
  wake: jsonOf(wake),
  may_be_saved: mayBeSaved ? 1 : 0,
  stop_carried_out: stopCarriedOut,
  stop_grace: jsonOf(grace),
  exit_streak: exitStreak,
  revision,
  updated_at_ms: updatedAtMs,
})
