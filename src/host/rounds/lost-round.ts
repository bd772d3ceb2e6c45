import { HostFault } from '../../core/errors.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import { assert } from '../../lib/assert.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { FileCutShort } from '../files/checksum.ts'
import { storageFault } from '../files/storage-fault.ts'
import type { PoolAccess } from '../pool/pool-access.ts'

const ARRIVAL_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]*$/

/** Whether a name in the pool may be that of an arrival. */
export const isArrivalName = (name: string): name is ArrivalId => ARRIVAL_NAME.test(name)

/** Checks an id that becomes a name in the pool. Another host chose it, so the API checks it too. */
export function checkArrival(arrival: ArrivalId): void {
  assert(isArrivalName(arrival), 'an arrival id is a plain name')
}

export const lostRound = (doing: string, because: string): HostFault =>
  new HostFault('round_lost', doing, { cause: new Error(because) })

/**
 * Turns an error into a fault. A missing or shorter file means that the round is lost, unless the whole pool is out of
 * sight.
 */
export async function roundFault(
  { looks, verify }: PoolAccess,
  error: unknown,
  doing: string,
): Promise<unknown> {
  const isShort = error instanceof FileCutShort
  if (!isShort && !hasErrno(error, 'ENOENT')) return storageFault(error, doing)
  try {
    await looks.take(doing, verify)
  } catch (outOfSight) {
    return outOfSight
  }
  return lostRound(doing, isShort ? error.message : 'a file of it is gone')
}
