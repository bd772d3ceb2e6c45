import { tapSpecOf } from '../intent.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { VmCounters } from '../../core/world/counters.ts'
import type { Host } from '../../ports/host.ts'

/**
 * Reads the counters of a VM from the kernel and the monitor. A part is absent if there is nothing to count. Throws
 * HostFault.
 */
export async function readCounters(host: Host, record: VmRecord): Promise<VmCounters> {
  const { id } = record
  const { device, userId } = record.host
  const [unit, tap] = await Promise.all([
    host.units.inspect(id),
    tapSpecOf(record) === undefined ? undefined : host.taps.inspect(device, id, userId),
  ])
  const [link, drops, disk] = await Promise.all([
    tap?.kind === 'present' ? host.taps.counters(device) : undefined,
    tap?.kind === 'present' ? host.firewall.counters(device) : undefined,
    unit.kind === 'active' ? host.monitor.diskCounters(id) : undefined,
  ])
  return {
    atMs: host.clock.now(),
    ...(link === undefined || drops === undefined ? {} : { network: { ...link, ...drops } }),
    ...(disk === undefined ? {} : { disk }),
  }
}
