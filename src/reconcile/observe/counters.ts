import { hereSinceMs, wakesOf } from '../../core/vm/record.ts'
import { given } from '../../lib/given.ts'
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
  const { device } = record.host
  const [unit, tap] = await Promise.all([
    host.units.inspect(id),
    tapSpecOf(record) === undefined ? undefined : host.taps.inspect(device, id),
  ])
  const hasDevice = tap?.kind === 'present'
  const [link, drops, ofGuest] = await Promise.all([
    hasDevice ? host.taps.counters(device) : undefined,
    hasDevice ? host.firewall.counters(device) : undefined,
    unit.kind === 'active' ? readGuestCounters(host, record, unit.startedAtMs) : {},
  ])
  const { deviceSinceMs } = record.observed
  return {
    atMs: host.clock.now(),
    ...(link === undefined || drops === undefined || deviceSinceMs === undefined
      ? {}
      : { network: { ...link, ...drops, sinceMs: deviceSinceMs } }),
    ...ofGuest,
    ...countsOnRecord(record),
  }
}

/** Reads the counters of a guest that has run since `sinceMs`. One that ends meanwhile has none. */
async function readGuestCounters(
  { units, monitors }: Host,
  { id, monitor }: VmRecord,
  sinceMs: number,
): Promise<Pick<VmCounters, 'disk' | 'cpu'>> {
  try {
    const [disk, cpu] = await Promise.all([monitors[monitor].diskCounters(id), units.cpuTime([id])])
    const usedMicroseconds = cpu.get(id)
    return given({
      disk: disk && { ...disk, sinceMs },
      cpu:
        usedMicroseconds === undefined ? undefined : { usedMs: Math.floor(usedMicroseconds / 1000), sinceMs },
    })
  } catch (error) {
    const unit = await units.inspect(id)
    if (unit.kind === 'active' && unit.startedAtMs === sinceMs) throw error
    return {}
  }
}

/** Returns the counts that the record has. */
function countsOnRecord(record: VmRecord): Pick<VmCounters, 'wakes' | 'restarts'> {
  const { restarts = 0 } = record.observed
  const sinceMs = hereSinceMs(record)
  if (sinceMs === undefined) return {}
  return given({ wakes: wakesOf(record), restarts: { count: restarts, sinceMs } })
}
