import { HostFault } from '../core/errors.ts'
import { errorChain } from '../log/error-chain.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { PassContext } from './progress.ts'

/**
 * Removes host objects of our naming whose VM is not on record: units, consoles and taps that carry the mark of this
 * store. Runs only after every recorded VM was looked at once, and never on a listing that failed.
 *
 * What carries the mark of another store is reported and left alone: that is another daemon's, or this host's state
 * directory was replaced under running VMs, and neither is a reason to end anybody's machine. Disks are only ever
 * reported: no sweep deletes data.
 */
export async function sweepOrphans({ store, host, log }: PassContext, signal: AbortSignal): Promise<void> {
  try {
    const [units, consoles, taps, disks] = await Promise.all([
      host.units.list(),
      host.consoles.list(),
      host.taps.list(),
      host.storage.list(),
    ])
    const known = new Set<VmId>(store.vms.ids())
    const isOrphan = ({ id }: { id: VmId }): boolean => !known.has(id)
    const isOurs = ({ storeId }: { storeId: string | undefined }): boolean => storeId === store.storeId
    const foreign = new Set(units.filter((unit) => isOrphan(unit) && !isOurs(unit)).map(({ id }) => id))

    for (const unit of units.filter(isOrphan).filter(isOurs)) {
      log.warn({ vm_id: unit.id }, 'orphan: ending a unit whose VM is not on record')
      await host.units.ensureStopped(unit.id, signal)
    }
    for (const id of consoles.filter((console) => !known.has(console) && !foreign.has(console))) {
      log.warn({ vm_id: id }, 'orphan: dropping a console master whose VM is not on record')
      await host.consoles.removeMaster(id)
    }
    for (const tap of taps.filter(isOrphan).filter(isOurs)) {
      log.warn({ vm_id: tap.id, device: tap.device }, 'orphan: removing a tap whose VM is not on record')
      await host.taps.remove(tap.device, tap.id)
    }
    for (const id of foreign) {
      log.error({ vm_id: id }, 'a unit of our naming belongs to another state directory; it is left alone')
    }
    for (const id of disks.filter((disk) => !known.has(disk))) {
      log.error(
        { vm_id: id },
        'the pool has a disk whose VM is not on record; remove it by hand if nobody needs it',
      )
    }
  } catch (error) {
    if (!(error instanceof HostFault)) throw error
    log.warn({ code: error.code, error: errorChain(error) }, 'orphans were not swept')
  }
}
