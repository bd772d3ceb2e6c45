/** What the program ends with; docs/vmhostctl.md has the same table. */
export const exitStatus = {
  done: 0,
  /** The daemon refused, or what was waited for failed. */
  failed: 1,
  /** Wrong command line, or a file it names is of no use. */
  usage: 2,
  /** A wait ran into its timeout; the daemon goes on. */
  timedOut: 3,
  /** No profile, or no answer from the daemon. */
  unreachable: 4,
} as const

export type ExitStatus = (typeof exitStatus)[keyof typeof exitStatus]
