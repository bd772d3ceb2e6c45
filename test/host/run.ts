import { run as runBounded } from '../../src/host/exec/exec.ts'
import type { Finished, RunOptions } from '../../src/host/exec/exec.ts'

/** Far more than a busy machine needs: a driver gives up earlier, a test does not. */
const TOOL_MS = 60_000

/** Runs a program as a driver does, but for the time that it may take. */
export const run = (argv: readonly [string, ...string[]], options: RunOptions = {}): Promise<Finished> =>
  runBounded(argv, { timeoutMs: TOOL_MS, ...options })
