/** The alerts and the dashboard that the package brings. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { allMetrics } from '../../src/core/metrics/catalogue.ts'
import { checkout } from '../../tools/paths.ts'
import { runPromtool } from './support/promtool.ts'
import type { TestContext } from 'node:test'

const at = (name: string): string => join(checkout, 'packaging/prometheus', name)
const rules = readFileSync(at('vmhostd-alerts.yml'), 'utf8')

type Panel = { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }
const dashboard: { readonly panels: readonly Panel[] } = JSON.parse(
  readFileSync(at('vmhostd-dashboard.json'), 'utf8'),
)
const panelExpressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))

/** Expressions of the alerts: the rest of a line, or the indented lines below it. */
const ruleExpressions = [...rules.matchAll(/^ {8}expr: (?:>-\n)?((?:.*\n)(?: {10}.*\n)*)/gm)].map(
  ([, expr = '']) => expr,
)

/** Labels that Prometheus adds to each series. */
const ADDED = ['instance', 'job']

/** Names of series, each with the labels that they may have. */
const series = new Map<string, readonly string[]>(
  allMetrics.flatMap(({ name, kind, labels }) =>
    kind === 'histogram'
      ? [
          [`${name}_bucket`, [...labels, 'le', ...ADDED]],
          [`${name}_count`, [...labels, ...ADDED]],
          [`${name}_sum`, [...labels, ...ADDED]],
        ]
      : [[name, [...labels, ...ADDED]]],
  ),
)

/** Returns what an expression uses that there is not. */
function unknownIn(expression: string): string[] {
  const used = [...expression.matchAll(/\b((?:vmhostd|process)_\w+)(?:\{([^}]*)\})?/g)]
  const labels = used.flatMap(([, name = '', matchers = '']) => {
    const known = series.get(name)
    if (known === undefined) return [name]
    const named = [...matchers.matchAll(/(\w+)\s*(?:=|!=|=~|!~)\s*"/g)].map(([, label = '']) => label)
    return named.filter((label) => !known.includes(label)).map((label) => `${name}{${label}}`)
  })
  const anyLabel = used.flatMap(([, name = '']) => series.get(name) ?? [])
  const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = '']) =>
    names.split(/, */),
  )
  return [...labels, ...grouped.filter((label) => !anyLabel.includes(label))]
}

test('the alerts and the dashboard use only metrics and labels that there are', () => {
  assert.equal(ruleExpressions.length, [...rules.matchAll(/- alert: /g)].length)
  assert.ok(panelExpressions.length > 20)
  for (const expression of [...ruleExpressions, ...panelExpressions])
    assert.deepEqual(unknownIn(expression), [], expression)
  assert.deepEqual(unknownIn('sum by (stage) (vmhostd_vms{stat="x"} / vmhostd_nothing)'), [
    'vmhostd_vms{stat}',
    'vmhostd_nothing',
    'stage',
  ])
})

test('Prometheus takes the alerts, and each of them fires when it should', async (t) => {
  await runPromtool(t, ['check', 'rules', at('vmhostd-alerts.yml')])
  await runPromtool(t, ['test', 'rules', at('vmhostd-alerts-test.yml')])
  const tested = readFileSync(at('vmhostd-alerts-test.yml'), 'utf8')
  for (const [, name = ''] of rules.matchAll(/- alert: (\w+)/g))
    assert.ok(tested.includes(`alertname: ${name}\n        exp_alerts:`), `${name} has no test that it fires`)
})

test('Prometheus takes each expression of the dashboard', async (t) => {
  await checkExpressions(t, panelExpressions)
})

/** Checks expressions as rules, with the variables of Grafana filled in. */
async function checkExpressions(t: TestContext, expressions: readonly string[]): Promise<void> {
  const records = expressions.map((expression, index) => ({
    record: `panel:number:${index}`,
    expr: expression.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.+'),
  }))
  // JSON is YAML too.
  const text = JSON.stringify({ groups: [{ name: 'dashboard', rules: records }] })
  const directory = mkdtempSync(join(tmpdir(), 'dashboard-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const file = join(directory, 'rules.json')
  writeFileSync(file, text)
  await runPromtool(t, ['check', 'rules', '--lint=none', file])
}
