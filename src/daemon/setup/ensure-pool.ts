/** Makes the storage pool, and keeps a host whose pool is out of sight from beginning another one by mistake. */
import { existsSync } from 'node:fs'
import { ifThere } from '../../host/files/storage-fault.ts'
import { poolIdOf } from '../../host/pool/pool-marker.ts'
import { remedyForRecords } from '../../core/doctor/judge-room.ts'
import { errorChain } from '../../log/error-chain.ts'
import { RecordsUnread, readRecordsFacts } from '../../store/database/records-facts.ts'
import { StateDirectoryInUse } from '../../store/database/open-database.ts'
import { Store } from '../../store/store.ts'
import { userIdRangeOf } from '../../store/vm/user-ids.ts'
import { SetupError } from './setup-report.ts'
import type { Config } from '../../config/config.ts'
import type { MarkedPool } from '../../host/pool/pool-marker.ts'
import type { SetupReport } from './setup-report.ts'

export type PoolOptions = {
  readonly config: Pick<Config, 'stateDirectory' | 'storage' | 'vms'>
  /** Lets the records go on with the pool that is there, or with a new one: their own is lost. */
  readonly replace: boolean
  /** Makes the directory a pool, or finds that it is one. */
  readonly markPool: (directory: string) => Promise<MarkedPool>
  readonly report: SetupReport
}

/** Ensures that there is a pool, and that it is the one of the records. Throws SetupError. */
export async function ensurePool({ config, replace, markPool, report }: PoolOptions): Promise<void> {
  const { poolDirectory: pool } = config.storage
  const recorded = recordedPool(config.stateDirectory)
  const present = await ifThere(poolIdOf(pool))
  const isOther = recorded !== undefined && recorded !== present
  if (isOther && !replace)
    throw new SetupError(
      `${pool} is ${present === undefined ? 'not a pool' : `pool ${present}`}, and the records of this host are of pool ${recorded}: ` +
        'mount that one there. If it is lost, --replace-pool begins without it: see "The pool is lost" in recovery.md',
    )
  const wasThere = existsSync(pool)
  const records = isOther ? openRecords(config) : undefined
  try {
    const { poolId, reflink } = await markPool(pool)
    if (records !== undefined) {
      records.rememberPool(poolId)
      await records.flushed()
      const vms = records.vms.ids().length
      report.changed(
        pool,
        `storage pool, in place of ${recorded}; VMs on record, without their disks: ${vms}`,
      )
    } else if (wasThere) report.kept(pool, 'storage pool, marked')
    else report.made(pool, 'storage pool, marked')
    if (!reflink)
      report.warned(
        pool,
        'its file system cannot share blocks, so every new disk is a full copy; XFS and btrfs can',
      )
  } finally {
    records?.close()
  }
}

/** Returns the pool of the records. Throws SetupError if they cannot be read. */
function recordedPool(stateDirectory: string): string | undefined {
  try {
    return readRecordsFacts(stateDirectory)?.poolId
  } catch (cause) {
    if (!(cause instanceof RecordsUnread)) throw cause
    throw new SetupError(`${errorChain(cause)}: ${remedyForRecords(cause.fault)}`, { cause })
  }
}

/** Opens the records for a change. Throws SetupError if the daemon has them. */
function openRecords({ stateDirectory, vms }: PoolOptions['config']): Store {
  try {
    return new Store(stateDirectory, userIdRangeOf(vms))
  } catch (cause) {
    if (!(cause instanceof StateDirectoryInUse)) throw cause
    throw new SetupError('the daemon runs: stop it for --replace-pool (systemctl stop vmhostd)', { cause })
  }
}
