import { recoverVm } from '../../commands/vm/recover-vm.ts'
import { judgeJoining, judgeOrphan } from '../../core/recovery/judge-orphan.ts'
import { given } from '../../lib/given.ts'
import { err, ok } from '../../lib/result.ts'
import { userIdsOf } from './look-at-host.ts'
import type { RecoverySource } from '../../commands/vm/recover-vm.ts'
import type { OperationId, UserId, VmId } from '../../core/ids.ts'
import type { Joining, Orphan } from '../../core/recovery/judge-orphan.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Result } from '../../lib/result.ts'
import type { Store } from '../../store/store.ts'
import type { RecoveryHost } from './look-at-host.ts'

/** A VM of the host without a record, and how it can get one. */
export type Found = { readonly id: VmId; readonly orphan: Orphan; readonly joining: Joining }

/** Looks at a VM that may have no record. Returns why it can get none. Throws HostFault. */
export async function findOrphan(store: Store, host: RecoveryHost, id: VmId): Promise<Result<Found, string>> {
  if (store.vms.get(id) !== undefined) return err('it has a record')
  const [unit, { disk }, saved] = await Promise.all([
    host.units.inspect(id),
    host.storage.inspect(id, []),
    host.savedStates.describe(id),
  ])
  const orphan = judgeOrphan({ unit, disk, ...given({ saved: saved?.terms }) })
  if (!orphan.ok) return orphan
  const joining = judgeJoining(orphan.value, store)
  return joining.ok ? ok({ id, orphan: orphan.value, joining: joining.value }) : joining
}

/** Lists the VMs of the pool that have no record, each with what is known of it. Throws HostFault. */
export async function listOrphans(
  store: Store,
  host: RecoveryHost,
): Promise<readonly { readonly id: VmId; readonly found: Result<Found, string> }[]> {
  const known = new Set(store.vms.ids())
  const ids = (await host.storage.list()).filter((id) => !known.has(id)).toSorted()
  return Promise.all(ids.map(async (id) => ({ id, found: await findOrphan(store, host, id) })))
}

/** Returns the users of all disks that have no record. Throws HostFault. */
export async function userIdsWithoutRecord(store: Store, host: RecoveryHost): Promise<readonly UserId[]> {
  const known = new Set(store.vms.ids())
  return userIdsOf(
    host,
    (await host.storage.list()).filter((id) => !known.has(id)),
  )
}

/** Gives a VM its record, in a store that the daemon does not use. */
export function giveRecord(
  store: Store,
  { id, orphan, joining }: Found,
  record: { readonly source: RecoverySource; readonly nowMs: number; readonly operationId: OperationId },
): Result<VmRecord, string> {
  const { source, ...terms } = record
  const make = (): Result<VmRecord, string> => recoverVm(store, id, { source, orphan, terms })
  // The store takes another id only for a VM that gets its record.
  const rehearsed = store.rehearse(make)
  if (!rehearsed.ok) return rehearsed
  return store.transaction(() => {
    if (joining.kind === 'adopt') store.adoptId(joining.storeId)
    return make()
  })
}

/** Returns the request of a VM as far as the host shows it, for the operator to complete. */
export function draftRequest({ diskMib, rootfsSha256, saved, guest }: Orphan): object {
  return {
    power: guest === undefined ? 'stopped' : 'running',
    compute: {
      cpu_millicores: saved?.compute.cpuMillicores ?? null,
      memory_mib: saved?.compute.memoryMib ?? null,
      sleep_after_idle_seconds: guest === 'sleeps' ? null : 0,
    },
    disk: { size_mib: diskMib },
    image: {
      rootfs: { sha256: rootfsSha256 ?? null, url: null },
      kernel: { sha256: null, url: null },
      initrd: { sha256: null, url: null },
    },
    network: { ipv4_address: null, ipv6_address: null },
  }
}
