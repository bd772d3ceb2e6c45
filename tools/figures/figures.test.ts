import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { measurement } from '../../bench/measurement.ts'
import { costOf, meetsAim } from './aims.ts'
import { chart } from './chart.ts'
import { figuresPage } from './page.ts'
import { FIGURES_CHART, FIGURES_PAGE, merged, recordedFigures } from './record.ts'
import type { Measurement } from '../../bench/measurement.ts'
import type { Figure } from './figure.ts'

const row = (change: Partial<Measurement> = {}): Measurement =>
  measurement({
    ...{ bench: 'wake', metric: 'first_byte_p50_ms', unit: 'ms', ours: 11, reference: 10 },
    ...{ reference_name: 'by hand', runs: 3 },
    ...change,
  })

const figure = (change: Partial<Measurement> = {}): Figure => ({
  ...row(change),
  measured_on: '2026-01-02',
  commit: '01234567',
})

test('a cost has a greatest value, and a rate a least one', () => {
  assert.equal(meetsAim(row()), true)
  assert.equal(meetsAim(row({ ours: 11.2 })), false)
  const rate = { bench: 'save', metric: 'mibps', unit: 'MiB/s' }
  assert.equal(meetsAim(row({ ...rate, ours: 6 })), true)
  assert.equal(meetsAim(row({ ...rate, ours: 5 })), false)
  assert.equal(meetsAim(row({ metric: 'other' })), undefined)
  assert.equal(meetsAim(row({ bench: 'executable', metric: 'idle_rss_mib', ours: 81 })), false)
  const memory = { bench: 'console', metric: 'rss_200_mib', reference: 80 }
  assert.equal(meetsAim(row({ ...memory, ours: 90 })), true)
  assert.equal(meetsAim(row({ ...memory, ours: 91 })), false)
})

test('less is better in the chart, for a rate too', () => {
  assert.equal(costOf(row({ ours: 20 })), 2)
  assert.equal(costOf(row({ unit: 'MiB/s', ours: 20 })), 0.5)
  assert.equal(costOf(row({ ours: 0 })), undefined)
  assert.equal(costOf(row({ reference: 0 })), undefined)
})

test('a run replaces the rows of its own benchmarks', () => {
  const earlier = [figure(), figure({ bench: 'api', metric: 'old' })]
  const names = merged(earlier, [figure({ bench: 'api', metric: 'new' })]).map(
    ({ bench, metric }) => `${bench}/${metric}`,
  )
  assert.deepEqual(names, ['api/new', 'wake/first_byte_p50_ms'])
})

test('the chart has a bar for each figure that has a ratio, and escapes names', () => {
  const svg = chart([row({ reference_name: 'a < "b" & c' }), row({ metric: 'lost', reference: 0 })])
  assert.equal(svg.match(/<rect x="\d+" y="\d+" width="\d+" height="11" fill="#2e7d32"><title>/g)?.length, 1)
  assert.match(svg, /a &lt; &quot;b&quot; &amp; c/)
  assert.doesNotMatch(svg, /wake \/ lost/)
})

test('the page says which aims are missed', () => {
  const machine = { cores: 2, memory_gib: 24, processor: 'a processor' }
  const page = figuresPage({ machine, figures: [figure({ ours: 12, reference_name: '`a | b`' })] })
  assert.match(page, /ratio ≤ 1\.1, \*\*not met\*\*/)
  assert.match(page, /`a \\\| b`/)
  assert.match(
    page,
    /^0 of 1 aims are met\. These are not:\n\n- `wake` \/ `first_byte_p50_ms`: 12 ms beside 10 ms/m,
  )
  const met = figuresPage({ machine, figures: [figure(), figure({ metric: 'other', ours: -1 })] })
  assert.match(met, /^1 of 1 aims are met\.\n\nTo measure/m)
  assert.match(met, /\| `other` \| -1 ms \| 10 ms \| - \|/)
})

test('the page and the chart in docs are those of the figures on record', () => {
  assert.ok(existsSync(FIGURES_PAGE))
  const record = recordedFigures()
  assert.equal(readFileSync(FIGURES_PAGE, 'utf8'), figuresPage(record))
  assert.equal(readFileSync(FIGURES_CHART, 'utf8'), chart(record.figures))
})
