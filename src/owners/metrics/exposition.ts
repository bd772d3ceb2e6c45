import { setImmediate as nextTurn } from 'node:timers/promises'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { LabelsOf, Metric } from '../../core/metrics/metric.ts'
import type { Samples } from './samples.ts'

/** The media type of the text (prometheus.io/docs/instrumenting/exposition_formats). */
export const METRICS_MEDIA_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Counters and histograms of what happens. They live as long as the daemon. */
export class Counts {
  readonly #registry = new Registry()
  readonly #counters = new Map<string, Counter>()
  readonly #histograms = new Map<string, Histogram>()

  /** Adds one. */
  count<L extends string>(metric: Metric<L>, labels: LabelsOf<Metric<L>>): void {
    const { name, help } = metric
    let counter = this.#counters.get(name)
    if (counter === undefined) {
      counter = new Counter({ name, help, labelNames: [...metric.labels], registers: [this.#registry] })
      this.#counters.set(name, counter)
    }
    counter.inc(labels)
  }

  observe<L extends string>(metric: Metric<L>, value: number, labels: LabelsOf<Metric<L>>): void {
    const { name, help, buckets = [] } = metric
    let known = this.#histograms.get(name)
    if (known === undefined) {
      const options = { name, help, labelNames: [...metric.labels], buckets: [...buckets] }
      known = new Histogram({ ...options, registers: [this.#registry] })
      this.#histograms.set(name, known)
    }
    known.observe(labels, value)
  }

  /** Returns the text of a metric; undefined if it never happened. */
  async text({ name }: Metric): Promise<string | undefined> {
    return this.#registry.getSingleMetric(name) === undefined
      ? undefined
      : this.#registry.getSingleMetricAsString(name)
  }
}

/**
 * Returns the text that Prometheus reads. Writes one metric in each turn of the event loop, so that other work does not
 * wait for a host with many VMs.
 */
export async function exposition(all: readonly Metric[], samples: Samples, counts: Counts): Promise<string> {
  const parts: string[] = []
  for (const metric of all) {
    await nextTurn()
    const text = (await counts.text(metric)) ?? (await sampledText(metric, samples))
    if (text !== undefined) parts.push(`${text}\n`)
  }
  return parts.join('\n')
}

async function sampledText(metric: Metric, samples: Samples): Promise<string | undefined> {
  const values = samples.of(metric)
  if (values.length === 0) return undefined
  const registry = new Registry()
  const { name, help, kind } = metric
  const options = { name, help, labelNames: [...metric.labels], registers: [registry] }
  if (kind === 'counter') {
    const made = new Counter(options)
    for (const { labels, value } of values) made.inc(labels, value)
  } else {
    const made = new Gauge(options)
    for (const { labels, value } of values) made.set(labels, value)
  }
  return registry.getSingleMetricAsString(name)
}
