import { imagesOf } from '../../core/desired.ts'
import { HostFault } from '../../core/errors.ts'
import { judgeShape } from '../../core/saved/judge-saved-state.ts'
import { judgeDisk, judgeUnit } from '../../core/vm/judge-owner.ts'
import { isUnitActive } from '../../core/world/world.ts'
import { unknownBy } from '../../log/error-chain.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { TrafficState } from '../../core/world/network-state.ts'
import type { SavedState, SavingMonitor } from '../../core/world/saved-state.ts'
import type { MonitorState, Probe, StorageState, UnitState, World } from '../../core/world/world.ts'
import type { Host } from '../../ports/host.ts'

/** Inspects everything of one VM on the host, in parallel. Never throws a host fault: a failed look is `unknown`. */
export async function observe(host: Host, record: VmRecord): Promise<World> {
  const { id, desired } = record
  const { storeId } = host
  const unit = probe(host.units.inspect(id).then((seen) => judgeUnit(seen, record, storeId)))
  const monitor = unit.then((seen) => probe(inspectMonitor(host, record, seen)))
  const [unitSeen, monitorSeen, console, storage, tap, firewall, saved, traffic] = await Promise.all([
    unit,
    monitor,
    probe(host.consoles.inspect(id)),
    probe(inspectStorage(host, record)),
    // A monitor that answers already holds its device. A look before that would see a device without a holder.
    monitor.then(() => probe(host.taps.inspect(record.host.device, id))),
    probe(host.firewall.inspect(record.host.device)),
    probe(inspectSaved(host, record)),
    probe(desired.network === undefined ? WITHOUT_TRAFFIC : host.traffic.inspect(record.host)),
  ])
  return { unit: unitSeen, monitor: monitorSeen, console, storage, tap, firewall, saved, traffic }
}

async function inspectStorage(host: Host, record: VmRecord): Promise<StorageState> {
  const seen = await host.storage.inspect(record.id, imagesOf(record.desired.image))
  return { ...seen, disk: judgeDisk(seen.disk, record, host.storeId) }
}

/** Inspects the monitor only while its unit is active: a socket file without a process proves nothing. */
async function inspectMonitor(host: Host, record: VmRecord, unit: Probe<UnitState>): Promise<MonitorState> {
  return isUnitActive({ unit }) ? host.monitors[record.monitor].inspect(record.id) : { kind: 'silent' }
}

const WITHOUT_TRAFFIC: Promise<TrafficState> = Promise.resolve({ kind: 'unwatched' })

/**
 * Inspects the saved state. If no program can restore it, the state is unusable, but the result still says that it
 * exists.
 */
async function inspectSaved(host: Host, { id, monitor, desired }: VmRecord): Promise<SavedState> {
  const installed = await probe(host.monitors[monitor].installed())
  if (installed.known) {
    return judgeShape(await host.savedStates.inspect(id, installed.value), desired.compute)
  }
  const seen = await host.savedStates.inspect(id, UNKNOWN_MONITOR)
  if (seen.kind === 'absent' || seen.kind === 'unfinished') return seen
  return { kind: 'unusable', code: installed.code, because: installed.message }
}

/** A monitor that has saved no state. */
const UNKNOWN_MONITOR: SavingMonitor = { program: '', version: '', accelerator: '', form: 'mapped' }

async function probe<T>(inspection: Promise<T>): Promise<Probe<T>> {
  try {
    return { known: true, value: await inspection }
  } catch (error) {
    if (!(error instanceof HostFault)) throw error
    return unknownBy(error)
  }
}
