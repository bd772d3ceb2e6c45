import { limits } from '../../config/limits.ts'
import { Pool } from '../../host/storage/pool.ts'
import { silentLog } from '../../log/log.ts'
import { readRecordedVms } from '../../store/database/records-facts.ts'
import type { PoolFact, PoolLook, RecordsLook, UnrecordedDisks } from '../../core/doctor/host-facts.ts'

/** Returns whether both are known, and the records name no other pool. */
export const belongTogether = (
  pool: PoolLook,
  records: RecordsLook,
): pool is Extract<PoolLook, { known: true }> =>
  pool.known && records.known && (records.value?.poolId ?? pool.value.poolId) === pool.value.poolId

/**
 * Looks for disks of VMs that have no record, as a recovery does, at a limited number of VMs. The daemon may run
 * meanwhile: a record is made before its disk and removed after it, so the listing comes before the records, and the
 * looks after them. Throws HostFault, and what the records throw.
 */
export async function unrecordedDisks(
  { directory, poolId }: Pick<PoolFact, 'directory' | 'poolId'>,
  stateDirectory: string,
): Promise<UnrecordedDisks> {
  const pool = new Pool({ directory, poolId, log: silentLog })
  const listed = await pool.list()
  const recorded = readRecordedVms(stateDirectory)
  const without = listed.filter((id) => !recorded.has(id)).toSorted()
  const looked = without.slice(0, limits.doctorDisksMax)
  const looks = await Promise.all(looked.map((id) => pool.inspect(id, [])))
  const ids = looked.filter((_, index) => looks[index]?.disk.kind === 'present')
  return { ids, isMore: without.length > looked.length }
}
