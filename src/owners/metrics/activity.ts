import { metrics } from '../../core/metrics/catalogue.ts'
import { Counts } from './exposition.ts'
import type { Plan, StepKind } from '../../core/plan/step.ts'
import type { LastWake } from '../../core/vm/record.ts'

/** One answer of an API, for its metrics. */
export type Answered = {
  readonly listener: string
  readonly method: string
  /** Template of the route; undefined if there is no such route. */
  readonly route: string | undefined
  readonly status: number
  readonly ms: number
}

/** Counts what the daemon does. It is the observer of the reconciler and of the listeners. */
export class Activity {
  readonly counts = new Counts()

  /** Counts a pass. */
  passEnded(ms: number): void {
    this.counts.observe(metrics.passes, ms / 1000, {})
  }

  planned(outcome: Plan['outcome']): void {
    this.counts.count(metrics.plans, { outcome })
  }

  /** Counts a pass that ended with a fault. `step` is the step or the inspection. */
  passFailed(step: string, code: string): void {
    this.counts.count(metrics.passFailures, { step, code })
  }

  /** Counts a step; `code` is that of the fault with which it failed. */
  stepEnded(step: StepKind, ms: number, code?: string): void {
    this.counts.observe(metrics.steps, ms / 1000, { step })
    if (code !== undefined) this.counts.count(metrics.stepFailures, { step, code })
  }

  woken({ reason, durationMs }: Pick<LastWake, 'reason' | 'durationMs'>): void {
    this.counts.observe(metrics.wakes, durationMs / 1000, { reason })
  }

  /** Counts an answer. A request without a route may have any method, so they are one series. */
  answered({ listener, method, route, status, ms }: Answered): void {
    const place = route === undefined ? { method: 'any', route: 'none' } : { method, route }
    const labels = { listener, ...place, status: `${Math.floor(status / 100)}xx` }
    this.counts.observe(metrics.requests, ms / 1000, labels)
  }

  loopDelayed(ms: number): void {
    this.counts.observe(metrics.loopDelay, ms / 1000, {})
  }
}
