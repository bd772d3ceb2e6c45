/** Joins the catalogue of problems from its subjects. `./dev errors` makes the tables of `docs/errors.md` from it. */
import { limits } from '../../config/limits.ts'
import { capacity } from './capacity.ts'
import { certificates } from './certificates.ts'
import { consoles } from './consoles.ts'
import { events } from './events.ts'
import { images } from './images.ts'
import { migrations } from './migrations.ts'
import { network } from './network.ts'
import { requests } from './requests.ts'
import { sleep } from './sleep.ts'
import { snapshots } from './snapshots.ts'
import { storage } from './storage.ts'
import { vms } from './vms.ts'
import { work } from './work.ts'
import type { FaultEntry, RejectionEntry } from './entry.ts'

const everyRejection = {
  ...requests.rejections,
  ...vms.rejections,
  ...consoles.rejections,
  ...capacity.rejections,
  ...storage.rejections,
  ...images.rejections,
  ...network.rejections,
  ...migrations.rejections,
  ...sleep.rejections,
  ...snapshots.rejections,
  ...events.rejections,
}

const everyFault = {
  ...vms.faults,
  ...consoles.faults,
  ...capacity.faults,
  ...storage.faults,
  ...images.faults,
  ...network.faults,
  ...sleep.faults,
  ...snapshots.faults,
  ...migrations.faults,
  ...certificates.faults,
  ...work.faults,
}

export const rejections: Readonly<Record<keyof typeof everyRejection, RejectionEntry>> = everyRejection
export const faults: Readonly<Record<keyof typeof everyFault, FaultEntry>> = everyFault

/** Seconds after which a request that met a fault may succeed, by the retry class of the fault. */
const FAULT_RETRY_SECONDS = {
  soon: limits.retryAfterSoonSeconds,
  backoff: limits.retryAfterBackoffSeconds,
  'on-change': undefined,
} as const satisfies Record<FaultEntry['retry'], number | undefined>

/**
 * Returns the seconds after which the same request may succeed; undefined if it cannot without a change. `retry` is the
 * class of a fault, if that differs from its entry.
 */
export function retryAfterSeconds(
  code: keyof typeof everyRejection | keyof typeof everyFault,
  retry?: FaultEntry['retry'],
): number | undefined {
  if (isRejectionCode(code)) return rejections[code].retryAfterSeconds
  return FAULT_RETRY_SECONDS[retry ?? faults[code].retry]
}

const isRejectionCode = (code: string): code is keyof typeof everyRejection =>
  Object.hasOwn(everyRejection, code)
