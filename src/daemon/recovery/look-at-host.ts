import { judgeDisk, judgeUnit } from '../../core/vm/judge-owner.ts'
import { isSaved } from '../../core/world/saved-state.ts'
import { ifThere } from '../../host/files/storage-fault.ts'
import { poolIdOf, PoolSight } from '../../host/pool/pool-marker.ts'
import { poolPaths } from '../../host/pool/pool-paths.ts'
import { Pool } from '../../host/storage/pool.ts'
import { SystemdBus } from '../../host/systemd/systemd-bus.ts'
import { SystemdUnits } from '../../host/systemd/systemd-units.ts'
import { silentLog } from '../../log/log.ts'
import type { Config } from '../../config/config.ts'
import type { FoundVm } from '../../core/recovery/judge-restored.ts'
import type { HostListing } from '../../core/recovery/judge-orphan.ts'
import type { UserId, VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { StorageState } from '../../core/world/world.ts'
import type { Host } from '../../ports/host.ts'

/** The parts of the host at which a recovery looks. */
export type RecoveryHost = Pick<Host, 'units' | 'storage' | 'savedStates'>

/** The looks with which records are compared with the host. */
export type ComparedHost = {
  readonly units: Pick<Host['units'], 'inspect' | 'list'>
  readonly storage: {
    inspect(id: VmId, images: readonly []): Promise<Pick<StorageState, 'disk'>>
    list(): Promise<readonly VmId[]>
  }
  readonly savedStates: Pick<Host['savedStates'], 'inspect'>
}

/** Returns a host as it is without its pool, at which nothing looks then. */
export const withoutPool = ({ units }: Pick<ComparedHost, 'units'>): ComparedHost => ({
  units,
  storage: {
    inspect: async () => ({ disk: { kind: 'absent' } }),
    list: async () => [],
  },
  savedStates: { inspect: async () => ({ kind: 'absent' }) },
})

/** Throws an error for the operator unless the pool of the records is in sight, or is lost as the operator says. */
export async function checkPool(
  { poolDirectory }: Pick<Config['storage'], 'poolDirectory'>,
  poolId: string,
  { isLost }: { readonly isLost: boolean },
): Promise<void> {
  const sight = new PoolSight(poolPaths(poolDirectory), poolId)
  if (isLost) {
    if ((await poolThere(poolDirectory, poolId)) !== poolId) return
    const notLost = `${poolDirectory} is the pool of these records, so it is not lost`
    await orThrow(sight.verify(), `${notLost}: make it whole and leave out --pool-lost`)
    throw new Error(`${notLost}: leave out --pool-lost`)
  }
  await orThrow(
    sight.verify(),
    `${poolDirectory} is not the pool of these records, ${poolId}, or not whole: mount that one there; if it is lost for good, add --pool-lost`,
  )
}

/**
 * Returns the id of the pool that is in the place of that of the records; undefined if no pool is there. Throws an
 * error for the operator if the marker cannot be read: set-up would keep that pool once it can be read again, and the
 * disks in it were compared with nothing.
 */
const poolThere = (poolDirectory: string, poolId: string): Promise<string | undefined> =>
  orThrow(
    ifThere(poolIdOf(poolDirectory)),
    `${poolDirectory} does not show whether it is the pool of these records, ${poolId}: ` +
      'correct what is named here, or mount the new file system there, and run this again',
  )

/** Returns the result of a look; its failure becomes the cause of an error with a message for the operator. */
async function orThrow<T>(look: Promise<T>, message: string): Promise<T> {
  try {
    return await look
  } catch (cause) {
    throw new Error(message, { cause })
  }
}

/** Only the presence of a saved state counts here, and not which program could read it. */
const ANY_MONITOR = { program: 'any', version: '0', accelerator: 'any', form: 'mapped' } as const

/** Looks at everything of a VM that a record could end or remove. Throws HostFault. */
export async function lookAtVm(host: ComparedHost, record: VmRecord, storeId: string): Promise<FoundVm> {
  const { id } = record
  const [unit, { disk }, saved] = await Promise.all([
    host.units.inspect(id),
    host.storage.inspect(id, []),
    host.savedStates.inspect(id, ANY_MONITOR),
  ])
  return {
    unit: judgeUnit(unit, record, storeId),
    disk: judgeDisk(disk, record, storeId),
    isSaved: isSaved(saved),
  }
}

/** Returns the users of the disks of these VMs, as far as they can be seen: the sweep of the next start looks again. */
export async function userIdsOf(
  host: Pick<ComparedHost, 'storage'>,
  ids: readonly VmId[],
): Promise<readonly UserId[]> {
  const looks = await Promise.allSettled(ids.map((id) => host.storage.inspect(id, [])))
  return looks.flatMap((look) =>
    look.status === 'fulfilled' && look.value.disk.kind === 'present' ? (look.value.disk.usableBy ?? []) : [],
  )
}

/** Lists units and disks of VMs. Throws HostFault. */
export async function listHost(host: ComparedHost): Promise<HostListing> {
  const [units, disks] = await Promise.all([host.units.list(), host.storage.list()])
  return { units, disks }
}

/** Calls `use` with the drivers that a recovery needs, and closes them. */
export async function withRecoveryHost<T>(
  { runDirectory, storage }: Config,
  poolId: string,
  use: (host: RecoveryHost) => Promise<T>,
): Promise<T> {
  const bus = new SystemdBus({ log: silentLog })
  try {
    const pool = new Pool({ directory: storage.poolDirectory, poolId, log: silentLog })
    const units = new SystemdUnits({ bus, log: silentLog, runDirectory })
    return await use({ units, storage: pool, savedStates: pool.savedStates })
  } finally {
    bus.close()
  }
}
