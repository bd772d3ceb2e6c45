/** The figures on record, docs/figures.json: the newest run of each benchmark. */
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import path from 'node:path'
import { main as format } from '../fmt.ts'
import { checkout } from '../paths.ts'
import { runChecked } from '../process.ts'
import { chart } from './chart.ts'
import { figuresPage } from './page.ts'
import type { Measurement } from '../../bench/measurement.ts'
import type { Figure, FiguresRecord } from './figure.ts'

const RECORD = path.join(checkout, 'docs/figures.json')
export const FIGURES_PAGE = path.join(checkout, 'docs/figures.md')
export const FIGURES_CHART = path.join(checkout, 'docs/figures.svg')

export const recordedFigures = (): FiguresRecord => JSON.parse(readFileSync(RECORD, 'utf8')) as FiguresRecord

/** Puts the rows of a run in the place of those of the same benchmarks, and writes the page and the chart. */
export async function recordFigures(rows: readonly Measurement[]): Promise<void> {
  const run = {
    measured_on: new Date().toISOString().slice(0, 10),
    commit: (await runChecked(['git', 'rev-parse', '--short=8', 'HEAD'], { cwd: checkout })).trim(),
  }
  const record: FiguresRecord = {
    machine: {
      cores: cpus().length,
      memory_gib: Math.round(totalmem() / 2 ** 30),
      processor: cpus()[0]?.model.trim() ?? 'unknown',
    },
    figures: merged(
      recordedFigures().figures,
      rows.map((row) => ({ ...row, ...run })),
    ),
  }
  writeFileSync(RECORD, `${JSON.stringify(record, undefined, 2)}\n`)
  await format([RECORD])
  writeFileSync(FIGURES_PAGE, figuresPage(record))
  writeFileSync(FIGURES_CHART, chart(record.figures))
}

/** Returns the figures in the order of the names of their benchmarks. */
export function merged(earlier: readonly Figure[], rows: readonly Figure[]): Figure[] {
  const measured = new Set(rows.map(({ bench }) => bench))
  return [...earlier.filter(({ bench }) => !measured.has(bench)), ...rows].toSorted((a, b) =>
    a.bench < b.bench ? -1 : Number(a.bench > b.bench),
  )
}
