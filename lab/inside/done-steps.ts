import { sh } from './shell.ts'

/** A step that the daemon has taken for a VM. */
export type DoneStep = {
  readonly vmId: string
  readonly step: string
  /** Milliseconds since the epoch. */
  readonly beganAtMs: number
  readonly endedAtMs: number
  readonly elapsedMs: number
  readonly isGivenUp: boolean
}

type LogLine = {
  readonly time: string
  readonly vm_id: string
  readonly elapsed_ms: number
  readonly steps: readonly {
    readonly step: string
    readonly after_ms: number
    readonly elapsed_ms: number
    readonly given_up?: true
  }[]
}

/** Reads from the daemon's log which steps are done, in order. @param since a time of journalctl(1); absent: all */
export async function doneSteps(since?: string): Promise<readonly DoneStep[]> {
  const from = since === undefined ? [] : ['--since', since]
  const log = await sh('journalctl', '--unit=vmhostd', '--output=cat', ...from)
  return log
    .split('\n')
    .filter((text) => text.includes('"steps done"'))
    .flatMap((text) => stepsOf(JSON.parse(text) as LogLine))
}

function stepsOf({ time, vm_id, elapsed_ms, steps }: LogLine): readonly DoneStep[] {
  const firstAtMs = Date.parse(time) - elapsed_ms
  return steps.map((done) => ({
    vmId: vm_id,
    step: done.step,
    beganAtMs: firstAtMs + done.after_ms,
    endedAtMs: firstAtMs + done.after_ms + done.elapsed_ms,
    elapsedMs: done.elapsed_ms,
    isGivenUp: done.given_up === true,
  }))
}
