import type { LabelsOf, Metric } from '../../core/metrics/metric.ts'

/** One value of a metric. */
export type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number }

/** The figures of one scrape. Collectors add to it as they learn them, until it is closed. */
export class Samples {
  readonly #byName = new Map<string, Sample[]>()
  #closed = false

  /** Whether the scrape has ended. */
  get isClosed(): boolean {
    return this.#closed
  }

  /** Adds a value. One that is not known is left out, and so is one that the metric cannot have. */
  add(metric: Metric<never>, value: number | undefined): void
  add<L extends string>(metric: Metric<L>, value: number | undefined, labels: LabelsOf<Metric<L>>): void
  add(metric: Metric, value: number | undefined, labels: Readonly<Record<string, string>> = {}): void {
    if (value === undefined || this.#closed || !fits(metric, value)) return
    const known = this.#byName.get(metric.name)
    if (known === undefined) this.#byName.set(metric.name, [{ labels, value }])
    else known.push({ labels, value })
  }

  /** Returns the values of a metric; none if nothing is known. */
  of(metric: Metric): readonly Sample[] {
    return this.#byName.get(metric.name) ?? []
  }

  /** Ignores what comes later: a collector may still wait for the host. */
  close(): void {
    this.#closed = true
  }
}

/** Whether a metric can have a value. One that it cannot have would end the whole scrape. */
const fits = ({ kind }: Metric, value: number): boolean =>
  Number.isFinite(value) && (kind !== 'counter' || value >= 0)
