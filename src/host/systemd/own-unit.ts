import { BusError } from './bus.ts'
import { SYSTEMD } from './bus-names.ts'
import type { SystemdBus } from './systemd-bus.ts'

/** A service, as systemd sees it. */
export type ServiceUnit = {
  readonly name: string
  /** Returns properties in the order of their names; undefined for one that this systemd does not have. */
  properties(iface: 'Unit' | 'Service', ...names: readonly string[]): Promise<readonly unknown[]>
}

/**
 * Returns the own unit; undefined if this process is not a service's main process. Throws HostFault
 * `systemd_unavailable`.
 */
export async function findOwnUnit(bus: SystemdBus): Promise<ServiceUnit | undefined> {
  const path = await bus
    .callManager('GetUnitByPID', 'u', [process.pid])
    .then(([found]) => String(found))
    .catch(undefinedIfRefused)
  if (path === undefined) return undefined
  const properties = propertiesOf(bus, path)
  const [[name], [mainPid]] = await Promise.all([properties('Unit', 'Id'), properties('Service', 'MainPID')])
  return mainPid === process.pid ? { name: String(name), properties } : undefined
}

/**
 * Returns the unit of that name, running or not; undefined if it is not installed.
 * Throws HostFault `systemd_unavailable`.
 */
export async function findUnit(bus: SystemdBus, name: string): Promise<ServiceUnit | undefined> {
  const path = await bus
    .callManager('LoadUnit', 's', [name])
    .then(([found]) => String(found))
    .catch(undefinedIfRefused)
  if (path === undefined) return undefined
  const properties = propertiesOf(bus, path)
  const [state] = await properties('Unit', 'LoadState')
  return state === 'loaded' ? { name, properties } : undefined
}

/**
 * Makes systemd count the restarts of a unit from 0. It does so by itself only when somebody starts the unit
 * (systemd.service(5), RestartSteps=), so rare crashes would add up to the longest delay. Throws HostFault or BusError.
 */
export async function forgetRestarts(bus: SystemdBus, unit: string): Promise<void> {
  await bus.callManager('ResetFailedUnit', 's', [unit])
}

const propertiesOf =
  (bus: SystemdBus, path: string): ServiceUnit['properties'] =>
  (iface, ...names) =>
    Promise.all(
      names.map((name) => bus.property(path, `${SYSTEMD}.${iface}`, name).catch(undefinedIfRefused)),
    )

function undefinedIfRefused(error: unknown): undefined {
  if (error instanceof BusError) return undefined
  throw error
}
