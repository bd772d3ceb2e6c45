import { given } from '../../lib/given.ts'
import { time } from './values.ts'
import type { WindowSize } from '../../core/console/console-viewer.ts'
import type { HandOver } from '../../core/vm/manifest.ts'
import type { HeldPacketsWire, HandOverWire, MovedConsoleWire, MovedMemoryWire, RoundWire } from './moves.ts'

export const roundToWire = (
  number: number,
  { sizeBytes, changedBytes }: { readonly sizeBytes: number; readonly changedBytes: number },
): RoundWire => ({ number, size_bytes: sizeBytes, changed_bytes: changedBytes })

export const handOverToWire = ({ stage, lastRound, memory }: HandOver): HandOverWire => ({
  stage,
  ...given({ last_round: lastRound, memory: memory && memoryToWire(memory) }),
})

const memoryToWire = ({ lengthBytes, terms }: NonNullable<HandOver['memory']>): MovedMemoryWire => ({
  length_bytes: lengthBytes,
  saved_at: time(terms.savedAtMs),
  monitor: { ...terms.monitor },
  compute: { cpu_millicores: terms.compute.cpuMillicores, memory_mib: terms.compute.memoryMib },
})

export const consoleToWire = ({ session, end, window, output }: Console): MovedConsoleWire => ({
  session,
  end,
  window: { columns: window.cols, rows: window.rows },
  output: Buffer.from(output).toString('base64'),
})

type Console = {
  readonly session: string
  readonly end: number
  readonly window: WindowSize
  readonly output: Uint8Array
}

type HeldPacket = {
  readonly number: number
  readonly gsoSize: number
  readonly ageMs: number
  readonly counts: boolean
  readonly frame: Uint8Array
}

export const heldPacketsToWire = (packets: readonly HeldPacket[]): HeldPacketsWire => ({
  packets: packets.map(({ number, gsoSize, ageMs, counts, frame }) => ({
    number,
    gso_size: gsoSize,
    age_ms: ageMs,
    counts,
    frame: Buffer.from(frame).toString('base64'),
  })),
})
