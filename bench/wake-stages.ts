import { sh } from '../lab/inside/shell.ts'
import { median } from './measurement.ts'

/** A wake as the client saw it, in milliseconds of the wall clock. */
export type SeenWake = {
  readonly id: string
  readonly sentAtMs: number
  readonly firstByteAtMs: number
}

type LogLine = {
  readonly time: string
  readonly vm_id?: string
  readonly step?: string
  readonly elapsed_ms?: number
  readonly message: string
}

/** Returns how long the stages of wakes took, by the daemon's log: medians in milliseconds, one line each, in order. */
export async function wakeStages(wakes: readonly SeenWake[], since: string): Promise<string[]> {
  const log = await sh('journalctl', '--unit=vmhostd', '--output=cat', '--since', since)
  const lines = log
    .split('\n')
    .filter((text) => text.includes('"step done"'))
    .map((text) => JSON.parse(text) as LogLine)
  const samples = new Map<string, number[]>()
  for (const wake of wakes) {
    const steps = lines.filter(
      ({ vm_id, time }) =>
        vm_id === wake.id && Date.parse(time) >= wake.sentAtMs && Date.parse(time) <= wake.firstByteAtMs + 50,
    )
    let at = wake.sentAtMs
    for (const { step = '', time, elapsed_ms = 0 } of steps) {
      const endMs = Date.parse(time)
      add(samples, `until ${step} began`, endMs - elapsed_ms - at)
      add(samples, step, elapsed_ms)
      at = endMs
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
