import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { allMetrics, seriesPerVm } from '../src/core/metrics/catalogue.ts'
import { METRICS_PAGE, withMetricTables } from './metric-docs.ts'

const page = readFileSync(METRICS_PAGE, 'utf8')

test('the page of metrics has exactly the metrics of the catalogue', () => {
  assert.equal(page, withMetricTables(page), 'the catalogue has changed: run ./dev metrics')
})

test('the page says how many series a VM adds', () => {
  assert.ok(page.includes(`at most ${seriesPerVm()} series for each VM`), String(seriesPerVm()))
})

test('no two metrics have one name, and names follow the conventions of Prometheus', () => {
  const names = allMetrics.map(({ name }) => name)
  assert.equal(new Set(names).size, names.length)
  for (const { name, kind, help, bound, labels } of allMetrics) {
    assert.match(name, /^(vmhostd|process)_[a-z]+(_[a-z]+)*$/)
    assert.equal(name.endsWith('_total'), kind === 'counter', name)
    assert.match(help, /^[A-Z].*\.$/, name)
    assert.equal('perVm' in bound, labels.includes('vm'), name)
  }
})
