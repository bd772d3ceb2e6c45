import { doneSteps } from '../lab/inside/done-steps.ts'
import { median } from './measurement.ts'

/** A wake as the client saw it, in milliseconds of the wall clock. */
export type SeenWake = {
  readonly id: string
  readonly sentAtMs: number
  readonly firstByteAtMs: number
}

/** Returns how long the stages of wakes took, by the daemon's log: medians in milliseconds, one line each, in order. */
export async function wakeStages(wakes: readonly SeenWake[], since: string): Promise<string[]> {
  const done = await doneSteps(since)
  const samples = new Map<string, number[]>()
  for (const wake of wakes) {
    const steps = done.filter(
      ({ vmId, endedAtMs }) =>
        vmId === wake.id && endedAtMs >= wake.sentAtMs && endedAtMs <= wake.firstByteAtMs + 50,
    )
    let at = wake.sentAtMs
    for (const { step, beganAtMs, endedAtMs, elapsedMs } of steps) {
      add(samples, `until ${step} began`, beganAtMs - at)
      add(samples, step, elapsedMs)
      at = endedAtMs
    }
    add(samples, 'from there to the first byte', wake.firstByteAtMs - at)
  }
  return [...samples].map(
    ([name, values]) => `${median(values).toFixed(1).padStart(7)} ms  ${name} (${values.length})`,
  )
}

function add(samples: Map<string, number[]>, name: string, value: number): void {
  const values = samples.get(name) ?? []
  values.push(value)
  samples.set(name, values)
}
