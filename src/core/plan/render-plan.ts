import { unreachable } from '../../lib/assert.ts'
import type { Plan, Step } from './step.ts'

/** Renders a plan for people: the outcome, then a line for each step with its reason. */
export function renderPlan(plan: Plan): string {
  switch (plan.outcome) {
    case 'settled':
      return 'settled'
    case 'act':
      return ['act', ...plan.steps.map((step) => `  ${renderStep(step)} because ${step.because}`)].join('\n')
    case 'wait':
      return `wait for ${plan.for}, look again in ${plan.recheckMs} ms; a fault after ${plan.deadlineMs / 1000} s`
    case 'blocked':
      return `blocked at ${plan.step} with ${plan.code} because ${plan.because}`
    default:
      return unreachable(plan)
  }
}

function renderStep(step: Step): string {
  const { kind, because: _because, lane: _lane, ...args } = step
  // A start without a saved state is the default, so it is not shown.
  const told = Object.entries(args).filter(([name, value]) => name !== 'restore' || value === true)
  const words = told.map(([name, value]) => `${name}=${brief(value)}`)
  return [kind, ...words].join(' ')
}

/** Shortens digests to their first bytes, which are enough to distinguish them. */
function brief(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return /^[0-9a-f]{64}$/.test(text) ? text.slice(0, 12) : text
}
