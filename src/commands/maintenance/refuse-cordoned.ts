import { isCordoned } from '../../core/maintenance/maintenance.ts'
import type { Desired } from '../../core/desired.ts'
import type { Rejection } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import type { Store } from '../../store/store.ts'

/** Returns why a cordoned host takes no further VM; undefined if it takes VMs. */
export function refuseNewVm({ store }: { readonly store: Store }, id: VmId): Rejection | undefined {
  const why = whyCordoned(store)
  if (why === undefined) return undefined
  return { code: 'host_cordoned', detail: `${why}, and takes no VM: place ${id} on another host, ${OR_END}` }
}

/**
 * Returns why a cordoned host lets no VM grow; undefined if the change is not a growth of memory, CPU or disk, or if
 * the host takes more.
 */
export function refuseGrowth(
  { store }: { readonly store: Store },
  id: VmId,
  { before, after }: { readonly before: Desired; readonly after: Desired },
): Rejection | undefined {
  const grows = [
    ...(after.compute.memoryMib > before.compute.memoryMib ? ['memory'] : []),
    ...(after.compute.cpuMillicores > before.compute.cpuMillicores ? ['CPU'] : []),
    ...(after.disk.sizeMib > before.disk.sizeMib ? ['disk'] : []),
  ]
  const why = grows.length === 0 ? undefined : whyCordoned(store)
  if (why === undefined) return undefined
  const detail = `${why}, and gives no VM more: leave the ${grows.join(' and ')} of ${id} as it is, ${OR_END}`
  return { code: 'host_cordoned', detail }
}

const OR_END = 'or end the maintenance with PUT /v1/maintenance {"state": "schedulable"}'

function whyCordoned(store: Store): string | undefined {
  const maintenance = store.maintenance.get()
  if (!isCordoned(maintenance)) return undefined
  const { state, reason } = maintenance
  return `this host is ${state}${reason === undefined ? '' : ` (${reason})`}`
}
