import { limits } from '../config/limits.ts'
import { pause } from '../lib/abortable.ts'
import { warnOfFault } from '../log/log.ts'
import type { VmId } from '../core/ids.ts'
import type { Taps } from '../ports/network.ts'
import type { Units } from '../ports/units.ts'
import type { Store } from '../store/store.ts'
import type { PassContext } from './context.ts'

/**
 * Sweeps once: removes host objects of our naming whose VM is not on record: units, consoles and taps that carry the
 * mark of this store. Runs only after the first looks of a start, and never on a listing that failed.
 *
 * A VM is left alone and reported if its unit carries the mark of another store, or if it has a disk. A deletion
 * removes the disk before it forgets the VM. So a VM with a disk was not deleted: this host's state directory is older
 * than the VM, or another one. No sweep deletes a disk.
 *
 * The firewall lets nothing of a VM through that is not on record. The user ids of VMs that are left alone go to no new
 * VM until a sweep finds none of them.
 *
 * The end of a unit takes time. A VM that is created meanwhile under the id of an orphan keeps what it finds, or its
 * worker removes it.
 *
 * The ends of units and the firewall do not wait for each other. Returns whether the sweep completed. Adds what it
 * leaves alone to `reported`, and reports nothing that is there already.
 */
export async function sweepOrphans(
  context: PassContext,
  signal: AbortSignal,
  reported: Set<VmId>,
): Promise<boolean> {
  try {
    const found = await listObjects(context)
    const leftAlone = leftAloneOf(context.store, found)
    const [cut, removed] = await Promise.allSettled([
      context.host.firewall.removeStrangers(),
      removeOrphans(context, found, { leftAlone, signal }),
    ])
    reportLeftAlone(context, found, { leftAlone, reported })
    await reserveUserIds(context, leftAlone)
    if (cut.status === 'rejected')
      warnOfFault(
        context.log,
        cut.reason,
        'firewall not closed for VMs that are not on record; repeated later',
      )
    if (removed.status === 'rejected') throw removed.reason
    const isComplete = cut.status === 'fulfilled'
    // An orphan that is still there has its user id.
    if (isComplete && leftAlone.foreign.length + leftAlone.withDisk.length === 0)
      context.store.releaseUserIds()
    return isComplete
  } catch (error) {
    if (!signal.aborted) warnOfFault(context.log, error, 'orphan sweep failed; repeated later')
    return false
  }
}

/** The host objects of our naming. Of units, those whose VM is on record are not listed. */
type Found = {
  readonly units: Awaited<ReturnType<Units['list']>>
  readonly consoles: readonly VmId[]
  readonly taps: Awaited<ReturnType<Taps['list']>>
  readonly disks: readonly VmId[]
}

async function listObjects({ store, host }: PassContext): Promise<Found> {
  const [units, consoles, taps, disks] = await Promise.all([
    // The units of VMs on record, which may be a thousand, are not looked at again.
    host.units.list(new Set(store.vms.ids())),
    host.consoles.list(),
    host.taps.list(),
    host.storage.list(),
  ])
  return { units, consoles, taps, disks }
}

/** VMs that are not on record, and that the sweep leaves alone. */
type LeftAlone = {
  /** Their unit has the mark of another store. */
  readonly foreign: readonly VmId[]
  readonly withDisk: readonly VmId[]
}

function leftAloneOf(store: Store, { units, disks }: Found): LeftAlone {
  const known = new Set<VmId>(store.vms.ids())
  const foreign = units.filter(({ id, storeId }) => !known.has(id) && storeId !== store.storeId)
  return { foreign: foreign.map(({ id }) => id), withDisk: disks.filter((id) => !known.has(id)) }
}

async function removeOrphans(
  { store, host, log }: PassContext,
  { units, consoles, taps }: Found,
  { leftAlone, signal }: { readonly leftAlone: LeftAlone; readonly signal: AbortSignal },
): Promise<void> {
  const spared = new Set<VmId>([...store.vms.ids(), ...leftAlone.foreign, ...leftAlone.withDisk])
  // A VM may be created while another orphan is removed.
  const isOrphan = (id: VmId): boolean => !spared.has(id) && store.vms.get(id) === undefined
  for (const { id } of units) {
    if (!isOrphan(id)) continue
    log.warn({ vm_id: id }, 'orphan: ending a unit whose VM is not on record')
    await host.units.ensureStopped(id, signal)
  }
  for (const id of consoles) {
    if (!isOrphan(id)) continue
    log.warn({ vm_id: id }, 'orphan: removing a console whose VM is not on record')
    await host.consoles.remove(id)
  }
  for (const { id, device, storeId } of taps) {
    if (!isOrphan(id) || storeId !== store.storeId) continue
    log.warn({ vm_id: id, device }, 'orphan: removing a tap whose VM is not on record')
    await host.taps.remove(device, id)
  }
}

function reportLeftAlone(
  { log }: PassContext,
  { units }: Found,
  { leftAlone, reported }: { readonly leftAlone: LeftAlone; readonly reported: Set<VmId> },
): void {
  const isNew = (id: VmId): boolean => !reported.has(id)
  for (const id of leftAlone.foreign.filter(isNew))
    log.error({ vm_id: id }, 'unit of another state directory left alone')
  const active = new Set(units.map(({ id }) => id))
  for (const id of leftAlone.withDisk.filter(isNew)) {
    const what = active.has(id)
      ? 'a VM runs that is not on record, and its disk is in the pool; it is left alone. Give it its record again (vmhostd recover), or stop its unit by hand'
      : 'the pool has a disk whose VM is not on record: give it its record again (vmhostd recover), or remove it by hand'
    log.error({ vm_id: id }, what)
  }
  for (const id of [...leftAlone.foreign, ...leftAlone.withDisk]) reported.add(id)
}

/** Keeps the users of disks from new VMs. */
async function reserveUserIds(context: PassContext, { withDisk }: LeftAlone): Promise<void> {
  // In sequence: a lost state directory leaves many disks, and the pool has few places.
  for (const id of withDisk) {
    await reserveUserId(context, id).catch((error: unknown) =>
      warnOfFault(context.log, error, 'disk not looked at, so its user id may go to a new VM', { vm_id: id }),
    )
  }
}

/** Sweeps, and repeats that after a while until one sweep completes. Resolves after the first. */
export async function sweepUntilDone(context: PassContext, signal: AbortSignal): Promise<void> {
  const reported = new Set<VmId>()
  const again = async (): Promise<void> => {
    const isDone = await sweepOrphans(context, signal, reported)
    if (isDone || signal.aborted) return
    pause(context.host.clock, limits.retryBackoffMsMax, signal).then(again, () => {})
  }
  await again()
}

/** Keeps the user of a disk from new VMs. Throws HostFault. */
async function reserveUserId({ store, host }: Pick<PassContext, 'store' | 'host'>, id: VmId): Promise<void> {
  const { disk } = await host.storage.inspect(id, [])
  if (disk.kind === 'present' && disk.usableBy !== undefined) store.reserveUserIds([disk.usableBy])
}
