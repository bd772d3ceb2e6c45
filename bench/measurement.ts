/** One figure: ours beside a reference that was measured in the same run. */
export type Measurement = {
  readonly bench: string
  readonly metric: string
  readonly unit: string
  readonly ours: number
  readonly reference: number
  readonly reference_name: string
  /** ours / reference */
  readonly ratio: number
  readonly runs: number
  /** The bound that ours must not exceed. */
  readonly limit?: number
  /** Scope of the figure, and the reason for its value; shown below the table. */
  readonly notes?: readonly string[]
}

/** Rounds to significant digits, and adds the ratio. */
export function measurement(row: Omit<Measurement, 'ratio'>): Measurement {
  const { bench, metric, unit, ours, reference, reference_name, runs, limit } = row
  const ratio = rounded(ours / reference)
  return {
    bench,
    metric,
    unit,
    ours: rounded(ours),
    reference: rounded(reference),
    reference_name,
    ratio,
    runs,
    ...(limit === undefined ? {} : { limit }),
  }
}

const rounded = (value: number): number => Number(value.toPrecision(3))

/** Returns the value below which `fraction` of the samples lie (nearest rank). */
export function percentile(samples: readonly number[], fraction: number): number {
  const sorted = samples.toSorted((a, b) => a - b)
  const value = sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * fraction) - 1)]
  if (value === undefined) throw new Error('no samples')
  return value
}

export const median = (samples: readonly number[]): number => percentile(samples, 0.5)

/** Writes progress to standard error, so that standard output has only the figures. */
export const progress = (text: string): void => void process.stderr.write(`    ${text}\n`)
