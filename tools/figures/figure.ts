import type { Measurement } from '../../bench/measurement.ts'

/** A row, with the day and the commit of its run. */
export type Figure = Measurement & { readonly measured_on: string; readonly commit: string }

export type FiguresRecord = {
  /** Where the newest run was. */
  readonly machine: { readonly cores: number; readonly memory_gib: number; readonly processor: string }
  readonly figures: readonly Figure[]
}
