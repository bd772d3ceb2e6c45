import { unreachable } from '../../lib/assert.ts'
import { changed } from '../../lib/changed.ts'
import { isNotReleased } from './leaving.ts'
import type { ExitPolicy } from '../desired.ts'
import type { ExitChange } from './create.ts'
import type { ExitCause } from './last-exit.ts'
import type { VmRecord } from './record.ts'

type Policied = Pick<VmRecord, 'desired'>

/** Returns whether an end with this cause is final. A reboot, of the guest or of its host, ends nothing. */
export function isFinal({ desired: { exit } }: Policied, cause: ExitCause): boolean {
  if (cause === 'rebooted' || cause === 'host_down') return false
  const policy = exit?.restartPolicy ?? 'always'
  switch (policy) {
    case 'always':
      return false
    case 'never':
      return true
    case 'on_failure':
      return cause === 'powered_off' || cause === 'unknown'
    default:
      return unreachable(policy)
  }
}

/** Returns the policy after a change; undefined for what holds by default. */
export function changedExit(before: ExitPolicy | undefined, change: ExitChange): ExitPolicy | undefined {
  const { restartPolicy = 'always', deleteOnExit = false, ...rest } = changed<Loose>(before ?? {}, change)
  if (restartPolicy === 'always' && rest.deleteAfterSeconds === undefined && !deleteOnExit) return undefined
  return { restartPolicy, ...rest, ...(deleteOnExit ? { deleteOnExit } : {}) }
}

/** A policy in which each member may be absent. */
type Loose = Partial<Omit<ExitPolicy, 'deleteOnExit'>> & { readonly deleteOnExit?: boolean }

/**
 * Returns whether the guest ended for good after the newest request for power. One that is not released to this host is
 * its source's, whatever the source has said of it.
 */
export const hasEnded = (vm: Pick<VmRecord, 'observed' | 'powerGeneration' | 'arrival'>): boolean =>
  vm.observed.endedAtPower === vm.powerGeneration && !isNotReleased(vm)

/**
 * Returns when a VM that is settled will be deleted, in milliseconds since the epoch; undefined if it is not stopped,
 * or stays. A protected VM stays.
 */
export function deletionDueMs(record: VmRecord): number | undefined {
  const { desired, observed, metadata } = record
  if (metadata.protected || observed.state !== 'stopped' || desired.exit === undefined) return undefined
  const { deleteAfterSeconds, deleteOnExit } = desired.exit
  if (deleteOnExit === true && hasEnded(record)) return observed.sinceMs
  return deleteAfterSeconds === undefined ? undefined : observed.sinceMs + deleteAfterSeconds * 1000
}
