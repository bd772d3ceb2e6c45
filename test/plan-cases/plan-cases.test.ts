import assert from 'node:assert/strict'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { plan } from '../../src/core/plan/plan.ts'
import { withGrace } from '../../src/core/status/grace.ts'
import { renderPlan } from '../../src/core/plan/step.ts'
import { parseCases } from './parse-case.ts'
import type { PlanCase } from './parse-case.ts'

const directory = import.meta.dirname
const update = process.env['UPDATE_PLAN_CASES'] === '1'

for (const file of readdirSync(directory).filter((name) => name.endsWith('.txt'))) {
  const path = `${directory}/${file}`
  const cases = parseCases(readFileSync(path, 'utf8'))
  describe(file.replace('.txt', '').replaceAll('-', ' '), () => {
    for (const one of cases) {
      test(one.name, { skip: update && 'rewriting the expectations' }, () => {
        assert.equal(planned(one), one.expected)
      })
    }
  })
  if (update) writeFileSync(path, cases.map(render).join('\n'))
}

test('a word that means nothing in its room fails the case', () => {
  for (const given of [
    'storage: untrimed',
    'unit: active second=3',
    'desired: runing',
    'tap: present dwon',
  ]) {
    assert.throws(() => parseCases(`# A case\n${given}\n---\nsettled\n`), /reads no such words/, given)
  }
})

function planned({ record, world, facts }: PlanCase): string {
  const now = { nowMs: facts.nowMs, bootId: record.launch?.bootId ?? 'boot-1' }
  return renderPlan(plan(withGrace(record, world, now).record, world, facts))
}

function render(one: PlanCase): string {
  return `# ${one.name}\n${one.given.map((line) => `${line}\n`).join('')}---\n${planned(one)}\n`
}
