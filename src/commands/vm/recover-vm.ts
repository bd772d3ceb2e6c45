import { guestMac } from '../../core/network/tap.ts'
import { given } from '../../lib/given.ts'
import { err, ok } from '../../lib/result.ts'
import type { Desired } from '../../core/desired.ts'
import type { OperationId, UserId, VmId } from '../../core/ids.ts'
import type { MonitorKind } from '../../core/monitor/monitor-kind.ts'
import type { Orphan } from '../../core/recovery/judge-orphan.ts'
import type { VmInputs } from '../../core/vm/create.ts'
import type { Metadata, VmRecord } from '../../core/vm/record.ts'
import type { Result } from '../../lib/result.ts'
import type { Store } from '../../store/store.ts'

/** Everything of a VM that the host does not show. */
export type RecoverySource = {
  /** Without a network's MAC address, the host's own choice is taken again. */
  readonly desired: Omit<Desired, 'migration'>
  readonly macIsChosen: boolean
  readonly metadata: Metadata
  readonly monitor: MonitorKind
  readonly inputs: VmInputs
}

type Terms = { readonly nowMs: number; readonly operationId: OperationId }

/**
 * Stores a record for a VM whose record is gone. What the host shows of it overrules the source: the disk's image and
 * size, the user of its monitor, and whether it has a guest. Returns why it cannot be stored.
 */
export function recoverVm(
  store: Store,
  id: VmId,
  {
    source,
    orphan,
    terms,
  }: { readonly source: RecoverySource; readonly orphan: Orphan; readonly terms: Terms },
): Result<VmRecord, string> {
  if (store.vms.get(id) !== undefined) return err('it has a record')
  const userId = userIdFor(store, orphan)
  if (!userId.ok) return userId
  const desired = desiredOf(source, orphan, userId.value)
  const holder = whoHolds(store, desired)
  if (holder !== undefined) return err(holder)
  const { guest, diskMib, createdAtMs = terms.nowMs } = orphan
  return ok(
    store.vms.insert({
      id,
      userId: userId.value,
      monitor: source.monitor,
      desired,
      metadata: source.metadata,
      inputs: source.inputs,
      operationId: terms.operationId,
      nowMs: terms.nowMs,
      recovered: { createdAtMs, diskMib, isSaved: guest === 'sleeps' },
    }),
  )
}

function userIdFor(store: Store, { userId, guest }: Orphan): Result<UserId, string> {
  const holder = userId === undefined ? undefined : store.vms.withUserId(userId)
  if (userId !== undefined && holder === undefined) return ok(userId)
  if (guest !== undefined) {
    const because =
      holder === undefined
        ? 'owner and mode of its disk do not show its user'
        : `its user is that of ${holder}`
    return err(`${because}, so its guest cannot be kept: end it first`)
  }
  const free = store.vms.freeUserId()
  return free === undefined ? err('all user ids of [vms] in the configuration are in use') : ok(free)
}

function desiredOf({ desired, macIsChosen }: RecoverySource, orphan: Orphan, userId: UserId): Desired {
  const { network, image } = desired
  const { rootfsSha256 = image.rootfsSha256, rebuild, diskMib, guest } = orphan
  const { rebuild: _rebuild, ...rest } = image
  return {
    ...desired,
    power: guest === undefined ? 'stopped' : 'running',
    disk: { ...desired.disk, sizeMib: Math.max(desired.disk.sizeMib, diskMib) },
    image: { ...rest, rootfsSha256, ...given({ rebuild }) },
    ...(network === undefined || macIsChosen
      ? {}
      : { network: { ...network, macAddress: guestMac(userId) } }),
  }
}

function whoHolds({ addresses }: Store, { network }: Desired): string | undefined {
  const { ipv4Address, ipv6Address, ipv6Prefix } = network ?? {}
  for (const address of [ipv4Address, ipv6Address]) {
    const holder = address === undefined ? undefined : addresses.holder(address)
    if (holder !== undefined) return `${address} belongs to the VM ${holder}`
  }
  const holder = ipv6Prefix === undefined ? undefined : addresses.prefixHolder(ipv6Prefix)
  return holder === undefined
    ? undefined
    : `${ipv6Prefix} overlaps an address or the prefix of the VM ${holder}`
}
