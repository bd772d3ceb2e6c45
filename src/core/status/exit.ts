import { limits } from '../../config/limits.ts'
import { given } from '../../lib/given.ts'
import { plainText } from '../console/plain-text.ts'
import type { ExitCause, LastExit } from '../vm/last-exit.ts'
import type { LaunchFinding } from './launch.ts'

/** Words that Linux writes on its console before it ends (kernel/reboot.c, kernel/panic.c), whatever its log level. */
const LAST_WORDS: readonly (readonly [pattern: RegExp, cause: ExitCause, words: string])[] = [
  [/\bKernel panic - not syncing/, 'panicked', 'the kernel of the guest panicked'],
  [/\breboot: Restarting system/, 'rebooted', 'the guest rebooted'],
  [/\breboot: (Power down|System halted)/, 'powered_off', 'the guest powered off'],
]

type Ended = Extract<LaunchFinding, { readonly kind: 'exited' | 'lost' }>

/**
 * Returns how a guest ended. A monitor that ended without an error does the same for each end of its guest, so the
 * console decides. `output` is what the guest wrote since its start, or the end of that.
 */
export function judgeExit(ended: Ended, output: Uint8Array, atMs: number): LastExit {
  const { because, ranMs } = ended
  const lines = linesOf(output)
  const consoleLines = lines.slice(-limits.exitConsoleLines)
  if (ended.kind === 'lost') return { atMs, ranMs, consoleLines, cause: 'host_down', because }
  const { status, isClean } = ended
  const seen = { atMs, ranMs, ...given({ exitStatus: status }), consoleLines }
  if (!isClean) return { ...seen, cause: 'monitor_failed', because }
  for (const line of lines.toReversed()) {
    const found = LAST_WORDS.find(([pattern]) => pattern.test(line))
    if (found !== undefined) return { ...seen, cause: found[1], because: found[2] }
  }
  return { ...seen, cause: 'unknown', because }
}

function linesOf(output: Uint8Array): string[] {
  return plainText(output.subarray(-limits.exitConsoleBytes))
    .split('\n')
    .map((line) => line.trimEnd().slice(0, limits.exitConsoleLineLength))
    .filter((line) => line !== '')
}
