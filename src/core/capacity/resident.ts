import { MAPS_SAVED_MEMORY } from '../monitor/monitor-kind.ts'
import { mibUp } from '../../lib/byte-units.ts'
import type { MonitorKind } from '../monitor/monitor-kind.ts'
import type { VmId } from '../ids.ts'
import type { MonitorMib } from './ledger.ts'

/**
 * Memory of the host that the processes of one unit have, as the kernel counts it. `fileBytes` are pages of files: the
 * program and its libraries, which all monitors share, and a saved state that the monitor maps.
 */
export type Resident = { readonly anonymousBytes: number; readonly fileBytes: number }

/** The part of a VM that its promise follows from. */
type Promised = { readonly id: VmId; readonly monitor: MonitorKind; readonly memoryMib: number }

/**
 * Memory that VMs have on the host at this moment, of what they were promised. `notResidentMib` is the rest: guests
 * never used it, or gave it back.
 */
export type ResidentMemory = {
  readonly residentMib: number
  readonly notResidentMib: number
  readonly each: ReadonlyMap<VmId, number>
}

/** Sums up the VMs whose memory was measured. Each is rounded up, so that no promise looks freer than it is. */
export function residentMemory(
  vms: readonly Promised[],
  measured: ReadonlyMap<VmId, Resident>,
  monitorMib: MonitorMib,
): ResidentMemory {
  const each = new Map<VmId, number>()
  let [residentMib, notResidentMib] = [0, 0]
  for (const { id, monitor, memoryMib } of vms) {
    const seen = measured.get(id)
    if (seen === undefined) continue
    const mib = mibUp(seen.anonymousBytes + (MAPS_SAVED_MEMORY[monitor] ? seen.fileBytes : 0))
    each.set(id, mib)
    residentMib += mib
    notResidentMib += Math.max(0, memoryMib + monitorMib(monitor, memoryMib) - mib)
  }
  return { residentMib, notResidentMib, each }
}
