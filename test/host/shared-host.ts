import { after, afterEach, before, beforeEach } from 'node:test'
import type { TestContext } from 'node:test'
import { leaveHost } from '../../lab/inside/leave-host.ts'
import { installDaemon } from '../../lab/inside/shell.ts'
import { undoAll } from '../contract/at-end.ts'

/** The things that the tests of a file share on the installed daemon. */
type Shared = {
  /** Makes it on a host that has the daemon, and neither VMs nor snapshots. */
  readonly make?: () => unknown
  /** Removes what `make` made besides VMs, and what a failed test may have left that keeps the daemon from starting. */
  readonly remove?: () => unknown
}

/**
 * Installs the daemon for the tests of a file, makes what they share, and removes it after them. If a test fails, all
 * of it is made again before the next one, so that one failure is one failure.
 */
export function sharedHost({ make = () => {}, remove = () => {} }: Shared = {}): void {
  let isUsable = false
  const arrive = async (): Promise<void> => {
    await installDaemon()
    await make()
    isUsable = true
  }
  const leave = (): Promise<void> => undoAll([leaveHost, ...(isUsable ? [] : [installDaemon]), remove])
  before(arrive)
  beforeEach(async () => {
    if (isUsable) return
    await leave()
    await arrive()
  })
  afterEach((t) => {
    if (!(t as TestContext).passed) isUsable = false
  })
  after(leave)
}
