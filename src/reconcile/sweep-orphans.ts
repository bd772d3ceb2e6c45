import { limits } from '../config/limits.ts'
import { pause } from '../lib/abortable.ts'
import { warnOfFault } from '../log/log.ts'
import type { VmId } from '../core/ids.ts'
import type { PassContext } from './progress.ts'

/**
 * Removes host objects of our naming whose VM is not on record: units, consoles and taps that carry the mark of this
 * store. Runs only after the first looks of a start, and never on a listing that failed.
 *
 * A VM is left alone and reported if its unit carries the mark of another store, or if it has a disk. A deletion
 * removes the disk before it forgets the VM. So a VM with a disk was not deleted: this host's state directory is older
 * than the VM, or another one. No sweep deletes a disk.
 *
 * The user ids of VMs that are left alone go to no new VM until a sweep finds none of them.
 *
 * The end of a unit takes time. A VM that is created meanwhile under the id of an orphan keeps what it finds, or its
 * worker removes it.
 *
 * Returns whether the sweep completed.
 */
export async function sweepOrphans({ store, host, log }: PassContext, signal: AbortSignal): Promise<boolean> {
  try {
    const [units, consoles, taps, disks] = await Promise.all([
      // The units of VMs on record, which may be a thousand, are not looked at again.
      host.units.list(new Set(store.vms.ids())),
      host.consoles.list(),
      host.taps.list(),
      host.storage.list(),
    ])
    const known = new Set<VmId>(store.vms.ids())
    const isOrphan = ({ id }: { id: VmId }): boolean => !known.has(id)
    const isOurs = ({ storeId }: { storeId: string | undefined }): boolean => storeId === store.storeId
    const foreign = units.filter((unit) => isOrphan(unit) && !isOurs(unit)).map(({ id }) => id)
    const unknown = disks.filter((id) => !known.has(id))
    const kept = new Set([...foreign, ...unknown])
    const isSwept = (object: { id: VmId }): boolean => isOrphan(object) && !kept.has(object.id)

    const isCreated = (id: VmId): boolean => store.vms.get(id) !== undefined
    for (const unit of units.filter(isSwept)) {
      if (isCreated(unit.id)) continue
      log.warn({ vm_id: unit.id }, 'orphan: ending a unit whose VM is not on record')
      await host.units.ensureStopped(unit.id, signal)
    }
    for (const id of consoles.filter((console) => isSwept({ id: console }))) {
      if (isCreated(id)) continue
      log.warn({ vm_id: id }, 'orphan: removing a console whose VM is not on record')
      await host.consoles.remove(id)
    }
    for (const tap of taps.filter(isSwept).filter(isOurs)) {
      if (isCreated(tap.id)) continue
      log.warn({ vm_id: tap.id, device: tap.device }, 'orphan: removing a tap whose VM is not on record')
      await host.taps.remove(tap.device, tap.id)
    }
    for (const id of foreign) {
      log.error({ vm_id: id }, 'unit of another state directory left alone')
    }
    const active = new Set(units.map(({ id }) => id))
    for (const id of unknown) {
      const what = active.has(id)
        ? 'a VM runs that is not on record, and its disk is in the pool; it is left alone. Give it its record again (vmhostd recover), or stop its unit by hand'
        : 'the pool has a disk whose VM is not on record: give it its record again (vmhostd recover), or remove it by hand'
      log.error({ vm_id: id }, what)
    }
    if (kept.size === 0) store.releaseUserIds()
    // In sequence: a lost state directory leaves many disks, and the pool has few places.
    for (const id of unknown) {
      await reserveUserId({ store, host }, id).catch((error: unknown) =>
        warnOfFault(log, error, 'disk not looked at, so its user id may go to a new VM', { vm_id: id }),
      )
    }
    return true
  } catch (error) {
    if (!signal.aborted) warnOfFault(log, error, 'orphan sweep failed; repeated later')
    return false
  }
}

/** Sweeps, and repeats that after a while until one sweep completes. Resolves after the first. */
export async function sweepUntilDone(context: PassContext, signal: AbortSignal): Promise<void> {
  const isDone = await sweepOrphans(context, signal)
  if (isDone || signal.aborted) return
  pause(context.host.clock, limits.retryBackoffMsMax, signal).then(
    () => sweepUntilDone(context, signal),
    () => {},
  )
}

/** Keeps the user of a disk from new VMs. Throws HostFault. */
async function reserveUserId({ store, host }: Pick<PassContext, 'store' | 'host'>, id: VmId): Promise<void> {
  const { disk } = await host.storage.inspect(id, [])
  if (disk.kind === 'present' && disk.usableBy !== undefined) store.reserveUserIds([disk.usableBy])
}
