/**
 * How a guest ended by itself. `unknown`: its monitor ended without an error, and the console says nothing, as for an
 * operator who stopped the unit. `host_down`: the host lost power, or was shut down without a save.
 */
export const EXIT_CAUSES = [
  'powered_off',
  'rebooted',
  'panicked',
  'monitor_failed',
  'host_down',
  'unknown',
] as const
export type ExitCause = (typeof EXIT_CAUSES)[number]

/** The end of a guest that was not asked for, as it is shown. */
export type LastExit = {
  readonly atMs: number
  readonly cause: ExitCause
  /** The cause in words. */
  readonly because: string
  readonly ranMs: number
  /** Exit status of the monitor; absent if none was seen. */
  readonly exitStatus?: number
  /** The last lines of the console, without control characters. */
  readonly consoleLines: readonly string[]
}
