import type { Brand } from '../lib/brand.ts'

/** Exit statuses of the program; docs/vmhostctl.md has the same table. */
export const exitStatus = {
  done: 0,
  /** The daemon refused, or the object of a wait failed. */
  failed: 1,
  /** Wrong command line, or a file it names cannot be used. */
  usage: 2,
  /** A wait reached its timeout; the daemon goes on. */
  timedOut: 3,
  /** No profile, no answer from the daemon, or a daemon that is still starting. */
  unreachable: 4,
} as const

/** Exit status of a shell in a guest, which is passed on. */
export type ShellStatus = Brand<number, 'ShellStatus'>

export type ExitStatus = (typeof exitStatus)[keyof typeof exitStatus] | ShellStatus

/**
 * Converts the 32 bits that a guest may send (RFC 4254, section 6.10) to an exit status. Takes the lower eight, as
 * ssh(1) does. If those are 0 but the status is not, returns a failure all the same.
 */
export function shellStatus(status: number): ShellStatus {
  const lower = status & 0xff
  return (lower === 0 && status !== 0 ? exitStatus.failed : lower) as ShellStatus
}
