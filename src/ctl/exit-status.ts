import type { Brand } from '../lib/brand.ts'

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

/** That of a shell in a guest, which is passed on. */
export type ShellStatus = Brand<number, 'ShellStatus'>

export type ExitStatus = (typeof exitStatus)[keyof typeof exitStatus] | ShellStatus

/**
 * Of the 32 bits that a guest may say (RFC 4254, section 6.10) a process has the lower eight to end with, and ssh(1) takes
 * those. But what failed there has failed here, also where they are 0.
 */
export function shellStatus(status: number): ShellStatus {
  const lower = status & 0xff
  return (lower === 0 && status !== 0 ? exitStatus.failed : lower) as ShellStatus
}
