/* `./dev metrics`: makes the tables of docs/metrics.md from the catalogue of metrics. The prose around them stays. */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { daemonMetrics } from '../src/core/metrics/daemon-metrics.ts'
import { hostMetrics } from '../src/core/metrics/host-metrics.ts'
import { vmMetrics } from '../src/core/metrics/vm-metrics.ts'
import { checkout } from './paths.ts'
import type { Metric } from '../src/core/metrics/metric.ts'

export const METRICS_PAGE = path.join(checkout, 'docs/metrics.md')

const HEAD = '| Metric | Kind | Labels | Series | Meaning |\n|---|---|---|---|---|\n'

/** The headings that a table stands below, each with its metrics. */
const TABLES: readonly (readonly [heading: string, metrics: readonly Metric[]])[] = [
  ['## The daemon and its work', Object.values(daemonMetrics)],
  ['## The host', Object.values(hostMetrics)],
  ['## Each VM', Object.values(vmMetrics)],
]

function row({ name, kind, labels, bound, help }: Metric): string {
  const names = labels.map((label) => `\`${label}\``).join(', ')
  return `| \`${name}\` | ${kind} | ${names} | ${seriesWords(bound)} | ${help} |\n`
}

function seriesWords(bound: Metric['bound']): string {
  if ('perVm' in bound) return `${bound.perVm} a VM`
  return 'perRoute' in bound ? `${bound.perRoute} a route` : String(bound.host)
}

/** Returns the page with its tables made again. Throws if a heading or its table is missing. */
export function withMetricTables(page: string): string {
  return TABLES.reduce((text, [heading, metrics]) => {
    const at = text.indexOf(`\n${heading}\n`)
    const start = at === -1 ? -1 : text.indexOf(HEAD, at)
    if (start === -1) throw new Error(`docs/metrics.md has no table below ${heading}`)
    const [old = ''] = /^(?:\|.*\n)*/.exec(text.slice(start)) ?? []
    return text.slice(0, start) + HEAD + metrics.map(row).join('') + text.slice(start + old.length)
  }, page)
}

/** Returns the exit status. */
export async function main(): Promise<number> {
  writeFileSync(METRICS_PAGE, withMetricTables(readFileSync(METRICS_PAGE, 'utf8')))
  return 0
}
