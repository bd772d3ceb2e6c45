import type { Blocked, Plan, Step, Waiting } from './step.ts'
import type { Probe } from './world.ts'

/** One part of a plan: steps to take, or why nothing after this part can be decided yet. */
export type Facet = readonly Step[] | Waiting | Blocked

/**
 * Joins facets to a plan. Each is asked only after the ones before it; the first that waits or is blocked ends the plan,
 * which then is what was gathered until there.
 */
export function inOrder(...facets: readonly (() => Facet)[]): Plan {
  const steps: Step[] = []
  for (const facet of facets) {
    const part = facet()
    if (isStop(part)) {
      if (steps.length === 0) return part
      break
    }
    steps.push(...part)
  }
  const [first, ...rest] = steps
  return first === undefined ? { outcome: 'settled' } : { outcome: 'act', steps: [first, ...rest] }
}

/** Gives a facet the value of an inspection, or blocks it where the inspection failed. */
export function when<T>(room: string, probe: Probe<T>, facet: (value: T) => Facet): Facet {
  if (probe.known) return facet(probe.value)
  return {
    outcome: 'blocked',
    step: `${room}.inspect`,
    code: probe.code,
    retry: probe.retry,
    because: probe.message,
  }
}

const isStop = (facet: Facet): facet is Waiting | Blocked => 'outcome' in facet
