import type { FaultCode } from '../errors.ts'

/**
 * Faults of the source's host that its destination shows as they are. Any other one may be a passing one of its daemon.
 */
const CODES: ReadonlySet<unknown> = new Set<FaultCode>([
  'disk_missing',
  'image_unavailable',
  'migration_unsupported',
  'monitor_missing',
  'round_lost',
  'saved_state_corrupt',
  'storage_failed',
  'storage_full',
  'storage_inspection_failed',
  'storage_read_only',
])

/** Returns whether the code of a source's answer is a fault of its host that keeps its name at the destination. */
export const isSourceFault = (code: unknown): code is FaultCode => CODES.has(code)
